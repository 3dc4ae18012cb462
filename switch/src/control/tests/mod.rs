use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xoff_dataplane::ledger::Ledger;
use xoff_ebpf::{EbpfError, Place};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_wire::units::{CLASSES, Class, MacAddr, PortId};
use xoff_xdp::{DeviceDrops, Look, PortDriver, Unread, XdpStatistics};

use super::mailbox::{Address, Inbox, Request};
use super::status::{Status, WorkerState};
use super::testing::{CLASS_3, NOW, device, view};
use super::*;
use crate::Promise;

mod addresses;
mod capture;
mod connections;
mod metrics;
mod policy;
mod reference;
mod reload;
mod status;

pub(super) struct SilentDriver {
    pub(super) takes: Arc<AtomicBool>,
}

impl PortDriver for SilentDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        Ok(XdpStatistics::default())
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops::default())
    }

    fn look(&self) -> Look {
        Look::There(Place::Ours)
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        let refused = || EbpfError::AnotherXoff { device: "l0".into(), process: None };
        self.takes.load(Relaxed).then_some(()).ok_or_else(refused)
    }
}

#[derive(Default)]
pub(super) struct FickleDriver {
    pub(super) is_missing: Arc<AtomicBool>,
}

impl PortDriver for FickleDriver {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        match self.is_missing.load(Relaxed) {
            true => Err(io::Error::other("it is gone")),
            false => Ok(XdpStatistics { rx_dropped: 5, ..XdpStatistics::default() }),
        }
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        Ok(DeviceDrops::default())
    }

    fn look(&self) -> Look {
        if self.is_missing.load(Relaxed) { Look::Gone } else { Look::There(Place::Ours) }
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        Ok(())
    }
}

fn answer(inbox: Inbox) -> JoinHandle<()> {
    let learned = Address { vid: 1, mac: MacAddr([2, 0, 0, 0, 0, 9]), port: PortId(1), fixed: false };
    answer_with(inbox, vec![learned])
}

fn answer_with(inbox: Inbox, table: Vec<Address>) -> JoinHandle<()> {
    let ledger = Ledger { received: 10, sent: 7, dropped: 3, ..Ledger::default() };
    std::thread::spawn(move || {
        loop {
            poll(&mut [PollFd::new(inbox.fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
            inbox.acknowledge();
            while let Some(request) = inbox.take() {
                match request {
                    Request::Ledger(answer) => answer.send(ledger).unwrap(),
                    Request::Addresses(request) => {
                        request.answer(table.len(), |places| places.map(|at| table[at]))
                    }
                    Request::Link { up, .. } if up => return,
                    Request::SetPolicy { swap, done } => done.send(swap).unwrap(),
                    Request::Revise { revision, done, .. } => done.send(revision).unwrap(),
                    Request::PutTap { done, .. } => done.send(Ok(())).unwrap(),
                    Request::TakeTap { done, .. } => done.send(None).unwrap(),
                    Request::Link { .. }
                    | Request::Member { .. }
                    | Request::GiveUp { .. }
                    | Request::Adopt { .. }
                    | Request::SetFib { .. }
                    | Request::SetMulticast { .. } => {}
                }
            }
        }
    })
}

fn stop_worker(view: &SwitchView, worker: JoinHandle<()>) {
    view.workers[0].mailbox.send(Request::Link { port: PortId(0), up: true }).unwrap();
    worker.join().unwrap();
}

fn get(control: &ControlHandle, path: &str) -> (u16, String) {
    let url = format!("http://{}{path}", control.address().unwrap());
    let call = ureq::get(url).config().http_status_as_error(false).build().call();
    let mut response = call.unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

fn any_port() -> Http {
    listen(&SocketAddr::from(([127, 0, 0, 1], 0)).into(), None, &[]).unwrap()
}

fn serve(view: &Arc<SwitchView>) -> ControlHandle {
    start(Arc::clone(view), Some(any_port()), None, None, &Confinement::default(), ()).unwrap()
}

fn table(count: u32) -> Vec<Address> {
    let address = |number: u32| {
        let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes(); // an odd factor: no duplicates
        let (vid, port) = (1 + (number % 2) as u16, PortId((number % 2) as u8));
        Address { vid, mac: MacAddr([2, 0, a, b, c, d]), port, fixed: number.is_multiple_of(3) }
    };
    (0..count).map(address).collect()
}
