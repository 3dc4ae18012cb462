use super::{FIVE_LINES, assert_only, read};

fn with(keys: &str) -> String {
    format!("{FIVE_LINES}policy = \"ofc\"\n[[switch.port]]\nname = \"h1\"\n{keys}\n")
}

#[test]
fn auto_ofc_peer_of_lab_port_needs_lldp_true() {
    let auto = "ofc_peer = \"auto\"";
    assert_only(&with(auto), 9, &["LLDP is off", "write lldp = true"]);
    assert!(read(&with(&format!("{auto}\nlldp = true"))).is_ok());
}
