use super::{FIVE_LINES, assert_only, read};

fn with(keys: &str) -> String {
    format!("{FIVE_LINES}policy = \"ofc\"\n[[switch.port]]\nname = \"h1\"\n{keys}\n")
}

#[test]
fn lab_port_with_ofc_peer_auto_requires_lldp() {
    let auto = "ofc_peer = \"auto\"";
    assert_only(&with(auto), 9, &["LLDP is off", "write lldp = true"]);
    assert!(read(&with(&format!("{auto}\nlldp = true"))).is_ok());
}

#[test]
fn lab_prints_note_if_policy_is_ofc_and_no_port_has_ofc_peer() {
    let notes = |keys: &str| {
        let notes = read(&with(keys)).unwrap().notes.into_iter();
        let of_peers = notes.filter(|note| note.message.contains("no port has `ofc_peer`"));
        of_peers.map(|note| note.position.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(notes(""), [(6, 11)]);
    assert_eq!(notes("ofc_peer = true"), []);
}
