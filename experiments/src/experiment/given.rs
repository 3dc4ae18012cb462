use crate::Given;

const TRUNK: &str = "trunk";

const OF_PORTS: &str = "the experiment sets ports, their names and their speeds; set the speed by `--speed`, a key of \
                        all ports by `defaults.KEY`, and of ports between switches by `trunk.KEY`";

const POLICY: &str =
    "the experiment compares policies and names results after them: choose policies with `--policy NAME`";

const OF_FABRIC: &str =
    "the experiment sets whether switches route, and their routes: request routing with `--routed`";

/// Parses a user setting KEY=VALUE.
///
/// # Errors
/// If the key is missing, or the experiment itself sets it.
pub fn given(text: &str) -> Result<Given, String> {
    let given: Given = text.parse()?;
    let (path, parts) = (given.path.as_str(), given.parts());
    if parts.len() < 2 {
        return Err(format!(
            "`{path}` does not have the form TABLE.KEY: write for example class.3.xoff or switch.accounting"
        ));
    }
    let is_of_all = ["defaults", TRUNK].contains(&parts[0]);
    let is_of_ports = is_of_all && ["speed", "name", "device"].contains(&parts[1]);
    if parts[0] == "port" || path.starts_with("fdb.static") || is_of_ports {
        return Err(OF_PORTS.into());
    }
    if is_of_all && parts[1] == "routed" || path.starts_with("router.netns") {
        return Err(OF_FABRIC.into());
    }
    if path == "switch.policy" || path.starts_with("switch.policy.") {
        return Err(POLICY.into());
    }
    if parts[0] == TRUNK && parts.len() > 2 {
        return Err(format!(
            "`{path}` is no key of a port: `trunk.KEY` sets keys of [[port]] for ports between switches"
        ));
    }
    Ok(given)
}

pub(super) fn concerns_trunks(given: &Given) -> bool {
    given.parts()[0] == TRUNK
}

pub(super) fn concerns_classification(given: &Given) -> bool {
    let is_of_it = |key: &&str| ["trust", "dscp_map", "rewrite_dscp"].contains(key);
    ["defaults", TRUNK].contains(&given.parts()[0]) && given.parts().get(1).is_some_and(is_of_it)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test] // proves: experiments
    fn experiment_refuses_malformed_user_setting() {
        for text in [
            "xoff=80KB",
            "trunk.class.3.xoff=1",
            "class.3.xoff",
            "=80KB",
            "class.3.xoff=",
            "class..xoff=1",
            "a]b.c=1",
            "a.b=1\n2",
        ] {
            assert!(given(text).is_err(), "{text}");
        }
        for text in ["switch.policy=capfc-stop-max", "switch.policy={ 3 = \"ofc\" }", "switch.policy.3=ofc"] {
            let message = given(text).unwrap_err();
            assert!(message.contains("--policy NAME"), "{message}");
        }
        for text in ["defaults.routed=false", "trunk.routed=true", "router.netns=other"] {
            let message = given(text).unwrap_err();
            assert!(message.contains("`--routed`"), "{message}");
        }
        for text in
            ["port.speed=1G", "port.class.3.xoff=1", "fdb.static=[]", "defaults.speed=1G", "trunk.name=x"]
        {
            let message = given(text).unwrap_err();
            assert!(message.contains("--speed") && message.contains("`trunk.KEY`"), "{message}");
        }
    }
}
