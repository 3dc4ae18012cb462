use super::*;
use xoff_ebpf::Place;

use crate::control::testing::device;

#[test]
fn total_pause_time_never_decreases() {
    let (finished, since, total) = (Counter::default(), Counter::default(), PauseTotal::default());
    assert_eq!(total.total(Nanos(50), &finished, &since), 0);
    since.set(100);
    assert_eq!(total.total(Nanos(130), &finished, &since), 30);
    since.set(0); // first of two steps
    assert_eq!(total.total(Nanos(140), &finished, &since), 30);
    finished.add(35);
    assert_eq!(total.total(Nanos(150), &finished, &since), 35);
}

#[test] // proves: devices
fn link_of_deleted_device_stays_gone_until_port_is_reopened() {
    let link = LinkCell::default();
    assert!(!link.set(Link::Up) && link.set(Link::Down) && link.set(Link::Gone));
    for later in [Link::Up, Link::Down, Link::Gone] {
        assert!(!link.set(later));
        assert_eq!(link.get(), Link::Gone);
    }
    link.renewed();
    assert!(!link.set(Link::Down) && link.set(Link::Up));
}

#[derive(Clone, Debug, Default)]
struct CountingDriver {
    lost: Arc<AtomicU64>,
    own: Arc<AtomicU64>,
    ahead: Arc<AtomicU64>,
    is_unreadable: Arc<AtomicBool>,
}

impl CountingDriver {
    fn lose(&self, frames: u64) {
        self.lost.fetch_add(frames, Relaxed);
    }

    fn device(&self) -> PortDevice {
        device(1, self.clone())
    }
}

impl PortDriver for CountingDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        match self.is_unreadable.load(Relaxed) {
            true => Err(io::Error::other("unreadable")),
            false => Ok(XdpStatistics {
                rx_dropped: self.lost.load(Relaxed) + self.ahead.load(Relaxed),
                ..XdpStatistics::default()
            }),
        }
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops {
            rx_dropped: self.lost.load(Relaxed) + self.own.load(Relaxed),
            ..DeviceDrops::default()
        })
    }

    fn look(&self) -> Look {
        Look::There(Place::Ours)
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}

fn lost(port: &PortView) -> [u64; 2] {
    [port.xdp_statistics().unwrap().rx_dropped, port.losses().unwrap().total()]
}

#[test] // proves: reload
fn losses_of_removed_port_still_count() {
    let (place, first, second) = (PortView::spare(0), CountingDriver::default(), CountingDriver::default());
    assert_eq!((place.is_there(), place.name(), lost(&place)), (false, "", [0; 2]));
    place.added("p1", ("l0", first.device()));
    first.lose(5);
    assert_eq!((place.is_there(), place.name(), place.device.get().as_str()), (true, "p1", "l0"));
    assert_eq!(
        (place.link.get(), lost(&place)),
        (Link::Down, [5; 2]),
        "link is up before the kernel reports that"
    );
    place.removed();
    assert_eq!((place.is_there(), place.name(), lost(&place)), (false, "p1", [5; 2]));
    assert_eq!(place.removed_unread.get(), 0);
    place.added("p1", ("l1", second.device()));
    second.lose(2);
    assert_eq!((place.returns.get(), lost(&place)), (0, [7; 2]));
    place.link.set(Link::Gone);
    place.removed();
    assert_eq!((place.removed_unread.get(), lost(&place)), (1, [7; 2]));
}

#[test] // proves: reload
fn port_being_removed_counts_no_further_receive_losses() {
    let (place, driver) = (PortView::spare(0), CountingDriver::default());
    place.added("p1", ("l0", driver.device()));
    driver.lose(5);
    place.begin_to_leave();
    driver.lose(3);
    assert_eq!(lost(&place), [5; 2], "loss after the begin of the removal counts");
    place.removed();
    assert_eq!(lost(&place), [5; 2]);
    place.added("p1", ("l0", CountingDriver::default().device()));
    assert_eq!(lost(&place), [5; 2]);
}

#[test] // proves: kernel-drops
fn losses_of_port_never_decrease() {
    let driver = CountingDriver::default();
    let port = PortView::new("l0", 0, driver.device());
    driver.own.store(1, Relaxed);
    assert_eq!(port.losses().unwrap().before_program, 1);
    driver.ahead.store(5, Relaxed);
    assert_eq!(port.losses().unwrap().before_program, 1);
    driver.lose(5);
    driver.ahead.store(0, Relaxed);
    let losses = port.losses().unwrap();
    assert_eq!((losses.before_program, losses.behind_program), (1, 5));
}

#[test] // proves: kernel-drops
fn losses_read_before_sockets_became_unreadable_still_count() {
    let (first, second) = (CountingDriver::default(), CountingDriver::default());
    let port = PortView::new("l0", 0, first.device());
    first.lose(5);
    port.returned("l0", second.device());
    second.lose(5);
    assert_eq!(lost(&port), [10; 2]);
    second.is_unreadable.store(true, Relaxed);
    second.lose(1);
    assert!(port.losses().is_err(), "unreadable sockets must be an error");
    port.returned("l0", CountingDriver::default().device());
    assert_eq!(lost(&port), [10; 2]);
}
