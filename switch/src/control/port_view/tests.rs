use super::*;
use crate::control::tests::{FickleDriver, device};

#[test]
fn a_running_pause_counts_and_never_runs_backwards() {
    let (finished, since, total) = (Counter::default(), Counter::default(), PauseTotal::default());
    assert_eq!(total.total(Nanos(50), &finished, &since), 0);
    since.set(100);
    assert_eq!(total.total(Nanos(130), &finished, &since), 30);
    since.set(0); // the worker's first step of two
    assert_eq!(total.total(Nanos(140), &finished, &since), 30);
    finished.add(35);
    assert_eq!(total.total(Nanos(150), &finished, &since), 35);
}

#[test]
fn what_is_gone_stays_gone_until_another_is_in_its_place() {
    let link = LinkCell::default();
    assert!(!link.set(Link::Up) && link.set(Link::Down) && link.set(Link::Gone));
    for later in [Link::Up, Link::Down, Link::Gone] {
        assert!(!link.set(later));
        assert_eq!(link.get(), Link::Gone);
    }
    link.renewed();
    assert!(!link.set(Link::Down) && link.set(Link::Up));
}

#[test]
fn a_port_that_is_taken_away_takes_no_loss_along() {
    let place = PortView::spare(0);
    let lost = |place: &PortView| place.xdp_statistics().map_or(0, |statistics| statistics.rx_dropped);
    assert_eq!((place.is_there(), place.name(), lost(&place)), (false, "", 0));
    place.added("p1", ("l0", device(1, FickleDriver::default())));
    assert_eq!((place.is_there(), place.name(), place.device.get().as_str()), (true, "p1", "l0"));
    assert_eq!((place.link.get(), lost(&place)), (Link::Down, 5), "until the kernel says that it is up");
    place.removed(place.lost_so_far());
    assert_eq!((place.is_there(), place.name(), lost(&place)), (false, "p1", 5));
    assert_eq!(place.removed_unread.get(), 0);
    place.added("p1", ("l1", device(1, FickleDriver::default())));
    assert_eq!((place.returns.get(), lost(&place)), (0, 10));
    place.link.set(Link::Gone);
    let none = LostSoFar {
        sockets: Some(XdpStatistics::default()),
        device: Some(DeviceDrops::default()),
        losses: Losses::default(),
    };
    place.removed(none);
    assert_eq!((place.removed_unread.get(), lost(&place)), (1, 0), "what came in since is no loss");
}

#[test]
fn what_devices_had_lost_is_not_forgotten_where_one_cannot_be_asked() {
    let of_a_device = || {
        let driver = FickleDriver::default();
        (Arc::clone(&driver.is_gone), device(1, driver))
    };
    let lost = |port: &PortView| port.xdp_statistics().map_or(0, |statistics| statistics.rx_dropped);
    let port = PortView::new("l0", 0, of_a_device().1);
    let (second_is_gone, second) = of_a_device();
    port.returned("l0", second);
    assert_eq!(lost(&port), 10);
    second_is_gone.store(true, Relaxed);
    port.returned("l0", of_a_device().1);
    assert_eq!(lost(&port), 10, "of the first and of the last");
}
