use xoff_wire::units::{PortId, PortSet};

use crate::capture::{Filter, FilterError};

/// Default and maximum captured bytes of a frame, as in tcpdump and Wireshark.
const SNAP_MAX: u32 = 262_144;
const SNAP_MIN: u32 = 14;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CaptureRequest {
    pub(super) ports: PortSet,
    pub(super) filter: Filter,
    pub(super) snap: u32,
    pub(super) count: Option<u64>,
    pub(super) seconds: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CaptureRequestError {
    #[error("this switch has no port {port:?}; its ports are {valid}")]
    Port { port: String, valid: String },
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("`{key}` is {given:?}, but has to be a whole number from {least} to {most}")]
    Number { key: &'static str, given: String, least: u64, most: u64 },
    #[error("the parameter `{0}` is given twice")]
    Twice(&'static str),
    #[error(
        "`{0}` is no parameter of a capture; parameters are port, class and dropped (each as often as needed), \
         control, snap, count and seconds: /capture?port=p1&class=3&dropped=egress_full"
    )]
    Unknown(String),
}

impl CaptureRequest {
    pub(super) fn read(
        query: &[(String, String)],
        ports: &[(PortId, &str)],
    ) -> Result<CaptureRequest, CaptureRequestError> {
        let (mut named, mut classes) = (PortSet::NONE, Vec::new());
        let (mut dropped, mut control) = (None, false);
        let (mut snap, mut count, mut seconds) = (None, None, None);
        for (key, value) in query {
            match key.as_str() {
                "port" => named.insert(find(value, ports)?),
                "class" => classes.push(value.as_str()),
                "dropped" => dropped
                    .get_or_insert_with(Vec::new)
                    .extend(Some(value.as_str()).filter(|it| !it.is_empty())),
                "control" => control = true,
                "snap" => set(&mut snap, "snap", value, SNAP_MIN.into(), SNAP_MAX.into())?,
                "count" => set(&mut count, "count", value, 1, u64::MAX)?,
                "seconds" => set(&mut seconds, "seconds", value, 1, u32::MAX.into())?,
                _ => return Err(CaptureRequestError::Unknown(key.clone())),
            }
        }
        if named.is_empty() {
            named = ports.iter().map(|(id, _)| *id).collect();
        }
        let filter = Filter::new(&classes, dropped.as_deref(), control)?;
        let snap = snap.and_then(|snap| u32::try_from(snap).ok()).unwrap_or(SNAP_MAX);
        Ok(CaptureRequest { ports: named, filter, snap, count, seconds })
    }
}

fn find(name: &str, ports: &[(PortId, &str)]) -> Result<PortId, CaptureRequestError> {
    let found = ports.iter().find(|(_, port)| *port == name).map(|(id, _)| *id);
    found.ok_or_else(|| {
        let valid = ports.iter().map(|(_, port)| *port).collect::<Vec<_>>().join(", ");
        CaptureRequestError::Port { port: name.to_owned(), valid }
    })
}

fn set(
    to: &mut Option<u64>,
    key: &'static str,
    given: &str,
    least: u64,
    most: u64,
) -> Result<(), CaptureRequestError> {
    let number = given.parse().ok().filter(|number| (least..=most).contains(number));
    let number =
        number.ok_or_else(|| CaptureRequestError::Number { key, given: given.to_owned(), least, most })?;
    match to.replace(number) {
        None => Ok(()),
        Some(_) => Err(CaptureRequestError::Twice(key)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(query: &[(&str, &str)]) -> Result<CaptureRequest, String> {
        let query: Vec<_> = query.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let ports = [(PortId(0), "a"), (PortId(1), "b"), (PortId(2), "c")];
        CaptureRequest::read(&query, &ports).map_err(|error| error.to_string())
    }

    #[test]
    fn capture_request_without_parameters_selects_everything() {
        let wanted = read(&[]).unwrap();
        assert_eq!((wanted.ports.len(), wanted.filter, wanted.snap), (3, Filter::ALL, SNAP_MAX));
        assert_eq!((wanted.count, wanted.seconds), (None, None));
        let wanted =
            read(&[("port", "c"), ("port", "a"), ("snap", "14"), ("count", "2"), ("seconds", "3")]).unwrap();
        assert!(wanted.ports.iter().eq([PortId(0), PortId(2)]));
        assert_eq!((wanted.snap, wanted.count, wanted.seconds), (14, Some(2), Some(3)));
        let wanted =
            read(&[("class", "3"), ("dropped", ""), ("dropped", "egress_full"), ("control", "")]).unwrap();
        assert_eq!(Ok(wanted.filter), Filter::new(&["3"], Some(&["egress_full"]), true));
    }

    #[test]
    fn errors_for_invalid_capture_parameters_list_valid_ones() {
        for (query, expected) in [
            (("port", "d"), "this switch has no port \"d\"; its ports are a, b, c"),
            (("class", "9"), "there is no class 9; classes are 0 to 7"),
            (("snap", "13"), "`snap` is \"13\", but has to be a whole number from 14 to 262144"),
            (("count", "0"), "`count` is \"0\", but has to be a whole number from 1 to 18446744073709551615"),
            (("seconds", "-1"), "`seconds` is \"-1\", but has to be a whole number from 1 to 4294967295"),
        ] {
            assert_eq!(read(&[query]).unwrap_err(), expected);
        }
        assert!(read(&[("filter", "x")]).unwrap_err().starts_with("`filter` is no parameter of a capture"));
        assert_eq!(
            read(&[("snap", "99"), ("snap", "98")]).unwrap_err(),
            "the parameter `snap` is given twice"
        );
    }
}
