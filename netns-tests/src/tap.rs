//! Captures all frames that arrive at a device. libpcap restores their VLAN tags.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pcap::{Active, BreakLoop, Capture, Direction};
use xoff_lab::Device;

use crate::{frames, wait_for};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    pub at: Duration,
    pub bytes: Vec<u8>,
}

#[must_use]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

pub struct Tap {
    captured: Arc<Mutex<Vec<CapturedFrame>>>,
    stopped: Arc<AtomicBool>,
    wake: BreakLoop,
    thread: Option<JoinHandle<()>>,
}

impl Tap {
    #[must_use]
    pub fn on(device: &Device) -> Tap {
        let mut capture = open(device, WATCHING);
        capture.direction(Direction::In).unwrap();
        let captured = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let wake = capture.breakloop_handle();
        let (sink, stop) = (Arc::clone(&captured), Arc::clone(&stopped));
        let thread = device.namespace().spawn_thread(move || collect(&mut capture, &sink, &stop));
        Tap { captured, stopped, wake, thread: Some(thread) }
    }

    #[must_use]
    pub fn all(&self) -> Vec<CapturedFrame> {
        self.captured.lock().unwrap().clone()
    }

    pub fn matching(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<CapturedFrame> {
        self.captured.lock().unwrap().iter().filter(|frame| wanted(&frame.bytes)).cloned().collect()
    }

    pub fn count(&self, wanted: impl Fn(&[u8]) -> bool) -> usize {
        self.captured.lock().unwrap().iter().filter(|frame| wanted(&frame.bytes)).count()
    }

    pub fn wait(&self, count: usize, wanted: impl Fn(&[u8]) -> bool) -> Vec<CapturedFrame> {
        wait_for(&format!("{count} frames"), || {
            let found = self.matching(&wanted);
            (found.len() >= count).then_some(found)
        })
    }

    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.captured.lock().unwrap().iter().filter_map(|frame| frames::sequence(&frame.bytes)).collect()
    }

    pub fn numbered(&self, number: u32) -> CapturedFrame {
        self.wait(1, |bytes| frames::sequence(bytes) == Some(number)).swap_remove(0)
    }

    pub fn clear(&self) {
        self.captured.lock().unwrap().clear();
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.wake.breakloop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}

/// Buffer size of a capturing socket in bytes, enough for several seconds.
const WATCHING: i32 = 64 << 20;
/// Buffer size of a sending socket in bytes: small, because every host of every test maps it.
pub(crate) const SENDING: i32 = 64 << 10;

pub(crate) fn open(device: &Device, buffer: i32) -> Capture<Active> {
    device.namespace().run(|| {
        Capture::from_device(device.name())
            .unwrap()
            .immediate_mode(true)
            .promisc(true)
            .snaplen(16_384)
            .buffer_size(buffer)
            .open()
            .unwrap_or_else(|error| {
                panic!("cannot capture on {}: {error}; run the test as root", device.name())
            })
    })
}

fn collect(capture: &mut Capture<Active>, sink: &Mutex<Vec<CapturedFrame>>, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Acquire) {
        match capture.next_packet() {
            Ok(packet) => {
                let seconds = u64::try_from(packet.header.ts.tv_sec).unwrap();
                let micros = u64::try_from(packet.header.ts.tv_usec).unwrap();
                let at = Duration::from_secs(seconds) + Duration::from_micros(micros);
                sink.lock().unwrap().push(CapturedFrame { at, bytes: packet.data.to_vec() });
            }
            Err(pcap::Error::NoMorePackets | pcap::Error::TimeoutExpired) => {} // woken
            Err(error) => panic!("the capture failed: {error}"),
        }
    }
}
