//! Who may change a running switch: somebody on this machine, and no web page that he has open.
//!
//! A page may send requests to the loopback address of the machine that shows it, under a name whose
//! owner has made it mean that address (DNS rebinding). A browser then writes that name into `Host`;
//! whoever means the switch writes a name or address of the switch.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;

/// Whether `peer`, who speaks to a switch called `host`, may change the one that listens on `listen`.
///
/// # Errors
/// What is allowed.
pub(super) fn may_change(peer: SocketAddr, host: Option<&str>, listen: IpAddr) -> Result<(), String> {
    // Who speaks from the address listened on is on this machine, too.
    let peer = peer.ip().to_canonical();
    if !peer.is_loopback() && peer != listen {
        return Err("a policy can be changed from this machine only".into());
    }
    match host {
        Some(host) if is_ours(host, listen) => Ok(()),
        other => Err(format!(
            "this switch is not {:?}; call it {} to change a policy",
            other.unwrap_or_default(),
            names(listen)
        )),
    }
}

fn names(listen: IpAddr) -> String {
    let loopback = "localhost, 127.0.0.1 or [::1]";
    match listen.is_loopback() || listen.is_unspecified() {
        true => loopback.into(),
        false => format!("{listen} or, if it listens there, {loopback}"),
    }
}

/// Whether a `Host` is a loopback name or address, or the address listened on.
fn is_ours(host: &str, listen: IpAddr) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse();
    let is_here = |address: IpAddr| address.to_canonical().is_loopback() || address == listen;
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(is_here)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LISTEN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn a_switch_answers_to_its_own_names_and_addresses_only() {
        let ours = [
            "localhost",
            "LocalHost:9464",
            "127.0.0.1:9464",
            "127.8.8.8",
            "[::1]:9464",
            "[::ffff:127.0.0.1]",
            "10.0.0.1:9464",
        ];
        for host in ours {
            assert!(is_ours(host, LISTEN), "{host}");
        }
        let others = [
            "",
            "rebound.example",
            "localhost.example:9464",
            "127.0.0.1.example",
            "10.0.0.2",
            "[::2]",
            "a b",
        ];
        for host in others {
            assert!(!is_ours(host, LISTEN), "{host}");
        }
    }

    #[test]
    fn only_this_machine_changes_anything() {
        let here = SocketAddr::from(([127, 0, 0, 1], 1));
        let there = SocketAddr::from(([10, 0, 0, 2], 1));
        assert_eq!(may_change(here, Some("localhost"), LISTEN), Ok(()));
        let by_its_address = SocketAddr::from((LISTEN, 1));
        assert_eq!(may_change(by_its_address, Some("10.0.0.1:9464"), LISTEN), Ok(()));
        let told = |peer, host| may_change(peer, host, LISTEN).unwrap_err();
        assert!(told(there, Some("localhost")).contains("from this machine only"));
        assert!(told(here, Some("rebound.example")).contains("\"rebound.example\"; call it 10.0.0.1 or"));
        assert!(told(here, None).contains("localhost"));
        let at_home = may_change(here, None, IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)).unwrap_err();
        assert!(at_home.ends_with("call it localhost, 127.0.0.1 or [::1] to change a policy"), "{at_home}");
    }
}
