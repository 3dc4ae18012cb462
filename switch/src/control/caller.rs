//! Permission to see captured frames: for processes of root and of the switch's user on this machine.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::unistd::geteuid;

const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[derive(Clone, Copy, Debug)]
pub(super) enum Caller {
    Tcp { peer: SocketAddr, here: SocketAddr },
    Unix { uid: u32 },
}

impl Caller {
    pub(super) fn address(self) -> SocketAddr {
        match self {
            Caller::Tcp { peer, .. } => peer,
            Caller::Unix { .. } => HERE,
        }
    }
}

const ESTABLISHED: &str = "01";

/// Maximum number of readings of the kernel's list of connections, because one reading may miss a connection.
const LOOKS_MAX: usize = 5;

pub(super) fn may_look(caller: Caller) -> Result<(), String> {
    let users = match caller {
        Caller::Unix { uid } => vec![uid],
        Caller::Tcp { peer, here } => owners_of(peer, here),
    };
    judge(&users, geteuid().as_raw())
}

pub(super) fn is_of_this_machine(peer: SocketAddr, here: SocketAddr) -> bool {
    !owners_of(peer, here).is_empty()
}

fn owners_of(peer: SocketAddr, here: SocketAddr) -> Vec<u32> {
    let mut looks = (0..LOOKS_MAX).map(|_| owners(&lists(), peer, here));
    looks.find(|owners| !owners.is_empty()).unwrap_or_default()
}

fn lists() -> String {
    // Read the connections of this thread's network namespace, which may not be that of the process.
    let lists = ["tcp", "tcp6"].map(|list| fs::read_to_string(format!("/proc/thread-self/net/{list}")));
    lists.map(Result::unwrap_or_default).concat()
}

fn judge(users: &[u32], us: u32) -> Result<(), String> {
    match *users {
        [uid] if uid == 0 || uid == us => Ok(()),
        [uid] => Err(format!(
            "frames are shown to root and to the user of the switch (uid {us}), not to uid {uid}; try sudo"
        )),
        _ => Err("frames are shown to root only, and the user of this client is unknown".into()),
    }
}

fn owners(lists: &str, peer: SocketAddr, here: SocketAddr) -> Vec<u32> {
    let client = [peer, here].map(|end| (end.ip().to_canonical(), end.port()));
    let owner = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let addresses = [read(fields.next()?)?, read(fields.next()?)?];
        let is_client = addresses == client && fields.next()? == ESTABLISHED;
        is_client.then(|| fields.nth(3)?.parse().ok())?
    };
    let mut owners: Vec<u32> = lists.lines().filter_map(owner).collect();
    owners.dedup();
    owners
}

fn read(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word =
        |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => return None,
    };
    Some((ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use tokio::net::{TcpSocket, TcpStream};
    use tokio::runtime::Builder;

    use super::*;

    const HERE: &str = "0100007F:24F8";

    fn list(sockets: &[(&str, &str, &str, u32)]) -> String {
        let line = |(local, remote, state, uid): &(&str, &str, &str, u32)| {
            format!(
                "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid:5} 0 1234 1\n"
            )
        };
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        heading.to_owned() + &sockets.iter().map(line).collect::<String>()
    }

    fn of(peer: &str, here: &str, text: &str) -> Vec<u32> {
        owners(text, peer.parse().unwrap(), here.parse().unwrap())
    }

    #[test] // proves: capture
    #[cfg(target_endian = "little")]
    fn user_of_tcp_client_is_found_by_its_addresses() {
        let text = list(&[("0100007F:C350", HERE, "01", 1000), ("0100007F:C351", HERE, "0A", 7)]);
        assert_eq!(of("127.0.0.1:50000", "127.0.0.1:9464", &text), [1000]);
        assert_eq!(of("[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:9464", &text), [1000]);
        assert!(
            of("127.0.0.1:50001", "127.0.0.1:9464", &text).is_empty(),
            "a listening socket must not count as connected"
        );
        assert!(of("127.0.0.2:50000", "127.0.0.1:9464", &text).is_empty());
        let local = "00000000000000000000000001000000:C350";
        let mapped = ["0000000000000000FFFF00000100007F:C350", "0000000000000000FFFF00000100007F:24F8"];
        let six = list(&[
            (local, "00000000000000000000000001000000:24F8", "01", 3),
            (mapped[0], mapped[1], "01", 4),
        ]);
        assert_eq!(of("[::1]:50000", "[::1]:9464", &six), [3]);
        assert_eq!(of("127.0.0.1:50000", "127.0.0.1:9464", &six), [4]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn socket_with_other_peer_is_not_taken_for_the_client() {
        let (port, other_address) = ("0100007F:C350", "0100007F:0050");
        let found = |sockets: &[_]| of("127.0.0.1:50000", "127.0.0.1:9464", &list(sockets));
        assert_eq!(found(&[(port, other_address, "01", 0), (port, HERE, "01", 1000)]), [1000]);
        assert_eq!(found(&[(port, HERE, "01", 0), (port, other_address, "01", 1000)]), [0]);
        // Neither socket is the client's: one has another peer, the other is half closed.
        assert!(found(&[(port, other_address, "01", 0), (port, HERE, "05", 1000)]).is_empty());
        assert_eq!(
            found(&[(port, HERE, "01", 0), (port, HERE, "01", 1000)]),
            [0, 1000],
            "every user whose socket matches the client must be listed"
        );
    }

    #[test]
    fn only_root_and_switch_user_may_capture() {
        assert_eq!((judge(&[0], 5), judge(&[5], 5)), (Ok(()), Ok(())));
        let message = judge(&[1000], 0).unwrap_err();
        assert!(message.contains("(uid 0), not to uid 1000"), "{message}");
        for unclear in [&[][..], &[0, 1000], &[0, 0]] {
            assert!(judge(unclear, 0).unwrap_err().contains("the user of this client is unknown"));
        }
    }

    async fn connect(from: SocketAddr, to: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(from).unwrap();
        socket.connect(to).await.unwrap()
    }

    #[test]
    fn user_of_connected_tcp_client_is_read_from_the_kernel() {
        let [listener, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [here, other_address] = [&listener, &other].map(|listener| listener.local_addr().unwrap());
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let client = connect("127.0.0.1:0".parse().unwrap(), here).await;
            let peer = client.local_addr().unwrap();
            let _beside = connect(peer, other_address).await;
            assert_eq!(owners(&lists(), peer, here).len(), 1);
            assert_eq!(may_look(Caller::Tcp { peer, here }), Ok(()), "the switch's own user must see frames");
            drop(client);
            assert!(may_look(Caller::Tcp { peer, here }).is_err());
        });
    }
}
