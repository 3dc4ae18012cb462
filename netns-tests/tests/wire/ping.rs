use crate::bed;

#[test] // proves: bridging
fn hosts_ping_over_ipv4_and_ipv6() {
    let bed = bed(3).ipv6().build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        let (from, to) = (bed.host(from), bed.host(to));
        from.run("ping", &["-c", "3", "-i", "0.05", "-W", "5", &to.ipv4().to_string()]);
        from.run("ping", &["-c", "3", "-i", "0.05", "-W", "5", &to.ipv6().to_string()]);
    }
    bed.finish(switch);
}

#[test]
fn switch_forwards_longest_and_fragmented_pings() {
    let bed = bed(2).ipv6().build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    for bytes in ["1472", "8000"] {
        a.run("ping", &["-c", "3", "-i", "0.05", "-W", "5", "-s", bytes, &b.ipv4().to_string()]);
        a.run("ping", &["-c", "3", "-i", "0.05", "-W", "5", "-s", bytes, &b.ipv6().to_string()]);
    }
    bed.finish(switch);
}
