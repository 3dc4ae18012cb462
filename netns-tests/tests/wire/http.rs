use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;

use xoff_netns_tests::{Bed, wait_for};

use crate::bed;

const ADDRESSES: u32 = 20_000;
const CLIENTS: usize = 250;
const MEMORY_MAX: u64 = 48 << 20;

fn many_addresses() -> String {
    let mut toml = format!("[fdb]\ncapacity = {ADDRESSES}\n");
    for number in 0..ADDRESSES {
        let [_, a, b, c] = number.to_be_bytes();
        let _ = write!(toml, "[[fdb.static]]\nmac = \"02:01:00:{a:02x}:{b:02x}:{c:02x}\"\nport = \"p1\"\n");
    }
    toml
}

/// Opens clients that request the longest reply (10,000 addresses) and never read.
fn open_unread_clients(bed: &Bed) -> Vec<TcpStream> {
    let request = "GET /addresses?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20);
    let ask = || {
        let mut stream = TcpStream::connect("127.0.0.1:9464").unwrap();
        let _ = stream.write_all(request.as_bytes()); // fails if the client was refused
        stream
    };
    bed.namespace().run(|| (0..CLIENTS).map(|_| ask()).collect())
}

#[test] // proves: http
fn http_clients_that_do_not_read_use_bounded_memory() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").more(&many_addresses()));
    let status = switch.status();
    assert_eq!((status.fdb.len(), status.fdb_total, status.fdb_truncated), (1_000, ADDRESSES.into(), true));
    let before = switch.anonymous_bytes();
    let mut most = before;
    let clients = open_unread_clients(&bed);
    // HTTP answers again when the switch has closed the connections of clients that do not read.
    wait_for("HTTP to answer", || {
        most = most.max(switch.anonymous_bytes());
        switch.get("/healthz").ok()
    });
    drop(clients);
    assert!(
        most - before < MEMORY_MAX,
        "{} bytes of memory are used for clients that do not read",
        most - before
    );
    bed.finish(switch);
}
