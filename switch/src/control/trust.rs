//! Access to a running switch: under its own names only, and changes only from this machine.
//!
//! By DNS rebinding, a web page could make its own name lead to this machine. Therefore the header `Host` must be a name of the switch
//! or an address. A request without `Host` is accepted: it comes from no browser.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri, header};

use super::caller::{Caller, is_of_this_machine};

const LOCALHOST: &str = "localhost";

/// Returns the header `Host`; an invalid value gives an empty name. Several such headers are an error: a proxy may
/// have checked another one than the switch.
pub(super) fn host(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    match (hosts.next(), hosts.next()) {
        (host, None) => Ok(host),
        (_, Some(_)) => Err("the request has several `Host` headers; exactly one is allowed"),
    }
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    listen: IpAddr,
    names: Vec<String>,
}

impl Names {
    pub fn new(listen: IpAddr, configured: &[String]) -> Names {
        let machine = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let own = [LOCALHOST.to_owned()].into_iter().chain(machine);
        let names = own.chain(configured.iter().cloned());
        Names { listen, names: names.map(|name| name.to_ascii_lowercase()).collect() }
    }

    pub fn may_ask(&self, host: Option<&str>) -> Result<(), String> {
        let Some(host) = host else { return Ok(()) };
        match HostHeader::read(host) {
            Some(HostHeader::Address(_)) => Ok(()),
            Some(HostHeader::Name(name)) if self.names.contains(&name) => Ok(()),
            _ => Err(format!(
                "this switch is not {host:?}; use {} or its IP address in the URL, or add the name to `http_hosts`",
                self.names.join(", ")
            )),
        }
    }

    /// Returns whether web pages from `origin` may read answers of `host` (CORS): one page can show several switches.
    pub fn may_read(&self, origin: &HeaderValue, host: Option<&str>) -> bool {
        let uri: Option<Uri> = origin.to_str().ok().and_then(|origin| origin.parse().ok());
        let Some(from) = uri.as_ref().and_then(Uri::host).map(str::to_ascii_lowercase) else { return false };
        let (from_host, host) = (HostHeader::read(&from), host.and_then(HostHeader::read));
        let is_one_of_ours = from != LOCALHOST && self.names.contains(&from);
        is_one_of_ours
            || host.is_some()
                && (host == from_host || [&host, &from_host].into_iter().flatten().all(HostHeader::is_here))
    }

    /// Checks that the client is on this machine, and that `host` is a name or address of the switch.
    pub fn may(&self, caller: Caller, host: Option<&str>, what: &str) -> Result<(), String> {
        let reached = match caller {
            Caller::Tcp { here, .. } => Some(here.ip().to_canonical()),
            Caller::Unix { .. } => None,
        };
        if !self.is_here(caller) {
            return Err(format!("a client may {what} from this machine only"));
        }
        let is_ours = match host.and_then(HostHeader::read) {
            Some(HostHeader::Name(name)) => self.names.contains(&name),
            Some(HostHeader::Address(address)) => {
                address.is_loopback() || address == self.listen || Some(address) == reached
            }
            None => false,
        };
        match is_ours {
            true => Ok(()),
            false => Err(format!(
                "this switch is not {:?}; use {} in the URL to {what}",
                host.unwrap_or_default(),
                self.here()
            )),
        }
    }

    /// Returns whether the client is on this machine. Its address proves that: the kernel drops packets from outside whose source is
    /// an address of this machine.
    fn is_here(&self, caller: Caller) -> bool {
        let Caller::Tcp { peer, here } = caller else { return true };
        let address = peer.ip().to_canonical();
        let is_own = address.is_loopback() || address == self.listen || address == here.ip().to_canonical();
        is_own || is_of_this_machine(peer, here)
    }

    fn here(&self) -> String {
        let loopback = "localhost, 127.0.0.1 or [::1]";
        match self.listen.is_loopback() || self.listen.is_unspecified() {
            true => loopback.into(),
            false => format!("{} or, if the switch listens there, {loopback}", self.listen),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum HostHeader {
    Address(IpAddr),
    Name(String),
}

impl HostHeader {
    fn is_here(&self) -> bool {
        match self {
            HostHeader::Address(address) => address.is_loopback(),
            HostHeader::Name(name) => name == LOCALHOST,
        }
    }

    fn read(host: &str) -> Option<HostHeader> {
        let authority: Authority = host.parse().ok()?;
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        Some(match address {
            Ok(address) => HostHeader::Address(address.to_canonical()),
            Err(_) => HostHeader::Name(name.trim_end_matches('.').to_ascii_lowercase()),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const LISTEN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    fn may_change(names: &Names, peer: SocketAddr, host: Option<&str>) -> Result<(), String> {
        let here = SocketAddr::new(names.listen, 9464);
        names.may(Caller::Tcp { peer, here }, host, "change a policy")
    }

    fn names() -> Names {
        Names::new(LISTEN, &["Leaf1.Lab.example".into()])
    }

    #[test] // proves: policy-swap, http
    fn http_host_must_be_own_name_or_ip_address() {
        let machine = nix::unistd::gethostname().unwrap().into_string().unwrap();
        let ours = [
            "localhost",
            "LocalHost:9464",
            "localhost.:9464",
            "127.0.0.1:9464",
            "127.8.8.8",
            "[::1]:9464",
            "[::ffff:127.0.0.1]",
            "10.0.0.1:9464",
            "leaf1.lab.example:9464",
            &machine,
        ];
        for host in ours {
            assert_eq!(names().may_ask(Some(host)), Ok(()), "{host}");
            assert_eq!(may_change(&names(), HERE, Some(host)), Ok(()), "{host}");
        }
        for host in
            ["", "rebound.example", "localhost.example:9464", "127.0.0.1.example", "lab.example", "a b"]
        {
            assert!(names().may_ask(Some(host)).is_err(), "{host}");
            assert!(may_change(&names(), HERE, Some(host)).is_err(), "{host}");
        }
        // Reading is allowed under any IP address, because DNS rebinding redirects only names.
        for host in ["10.0.0.2", "[::2]:9464"] {
            assert_eq!(names().may_ask(Some(host)), Ok(()), "{host}");
            assert!(may_change(&names(), HERE, Some(host)).is_err(), "{host}");
        }
        assert_eq!(names().may_ask(None), Ok(()), "a client without `Host` header must be accepted");
        let message = names().may_ask(Some("rebound.example")).unwrap_err();
        assert!(message.starts_with("this switch is not \"rebound.example\"; use localhost, "), "{message}");
        assert!(
            message
                .ends_with("leaf1.lab.example or its IP address in the URL, or add the name to `http_hosts`"),
            "{message}"
        );
    }

    #[test] // proves: http
    fn only_web_page_of_the_same_host_may_read_answers() {
        let may = |origin, host| names().may_read(&HeaderValue::from_static(origin), Some(host));
        assert!(may("http://10.0.0.2:9465", "10.0.0.2:9464"));
        assert!(may("http://[::1]:9465", "[::1]:9464"));
        assert!(
            may("http://localhost:9465", "127.0.0.1:9464") && may("http://leaf1.lab.example", "10.0.0.1")
        );
        assert!(
            !may("http://localhost:8000", "10.0.0.1:9464"),
            "a web page from localhost must not read answers of a switch at another address"
        );
        for origin in
            ["http://10.0.0.3", "http://rebound.example", "null", "file://", "", "http://localhost.example"]
        {
            assert!(!may(origin, "127.0.0.1:9464"), "{origin}");
        }
        assert!(!names().may_read(&HeaderValue::from_static("http://10.0.0.2"), None));
        let with_address = Names::new(LISTEN, &["10.0.0.3".into()]);
        assert!(
            with_address.may_read(&HeaderValue::from_static("http://10.0.0.3:9464"), Some("10.0.0.1:9464"))
        );
    }

    #[test] // proves: policy-swap
    fn only_clients_on_this_machine_may_change_the_switch() {
        let there = SocketAddr::from(([10, 0, 0, 2], 1));
        assert_eq!(may_change(&names(), HERE, Some("localhost")), Ok(()));
        let by_its_address = SocketAddr::from((LISTEN, 1));
        assert_eq!(may_change(&names(), by_its_address, Some("10.0.0.1:9464")), Ok(()));
        let refusal = |peer, host| may_change(&names(), peer, host).unwrap_err();
        assert!(refusal(there, Some("localhost")).contains("from this machine only"));
        assert!(refusal(HERE, Some("rebound.example")).contains("\"rebound.example\"; use 10.0.0.1 or"));
        assert!(refusal(HERE, None).contains("localhost"));
        let at_home = may_change(&Names::new(HERE.ip(), &[]), HERE, None).unwrap_err();
        assert!(
            at_home.ends_with("use localhost, 127.0.0.1 or [::1] in the URL to change a policy"),
            "{at_home}"
        );
    }

    #[test]
    fn client_from_other_local_address_may_change_the_switch() {
        let names = Names::new([0, 0, 0, 0].into(), &[]);
        let ours = SocketAddr::from(([10, 0, 0, 3], 1));
        let reached = |peer, here: [u8; 4]| Caller::Tcp { peer, here: SocketAddr::from((here, 9464)) };
        let may = |caller, host| names.may(caller, Some(host), "change a policy");
        assert_eq!(may(reached(ours, [10, 0, 0, 3]), "10.0.0.3:9464"), Ok(()));
        assert_eq!(may(reached(ours, [10, 0, 0, 3]), "localhost"), Ok(()));
        assert!(
            may(reached(ours, [10, 0, 0, 3]), "10.0.0.4").is_err(),
            "a request to the address of another switch must be refused"
        );
        assert!(
            may(reached(ours, [10, 0, 0, 4]), "10.0.0.4").is_err(),
            "a request from another machine must be refused"
        );
    }

    #[test]
    fn local_connection_is_distinguished_from_remote_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, here) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        assert!(is_of_this_machine(peer, here));
        drop(listener);
        let remote = SocketAddr::from(([10, 255, 0, 9], 4_242));
        assert!(!is_of_this_machine(remote, here));
    }
}
