use std::sync::mpsc;

use xoff_dataplane::frame::{Frame, FrameStore as _};
use xoff_dataplane::tap::{FrameEvent, Sighting, Tap, TapId};
use xoff_xdp::Store;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn show_frames(inbox: Inbox) -> (JoinHandle<()>, mpsc::Receiver<TapId>) {
    let (report, removed_taps) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let mut store = Store::with_frames(64);
        let frame = store.make(&[0; 9_000]).unwrap();
        let mut taps: Vec<(TapId, Box<dyn Tap>)> = Vec::new();
        loop {
            poll(&mut [PollFd::new(inbox.fd(), PollFlags::POLLIN)], PollTimeout::from(1_u8)).unwrap();
            inbox.acknowledge();
            taps.iter_mut().for_each(|(_, tap)| (0..20).for_each(|_| show(tap.as_mut(), &frame, &store)));
            while let Some(request) = inbox.take() {
                match request {
                    Request::PutTap { id, tap, done } => {
                        taps.push((id, tap));
                        done.send(Ok(())).unwrap();
                    }
                    Request::TakeTap { id, done } => {
                        let at = taps.iter().position(|(it, _)| *it == id);
                        done.send(at.map(|at| taps.remove(at).1)).unwrap();
                        report.send(id).unwrap();
                    }
                    Request::Link { up: true, .. } => return store.free(frame),
                    _ => {}
                }
            }
        }
    });
    (worker, removed_taps)
}

fn show(tap: &mut dyn Tap, frame: &Frame, store: &Store) {
    let event = FrameEvent::Received { dropped: None };
    tap.see(&Sighting { at: NOW, port: PortId(0), class: None, is_control: true, event }, frame, store);
}

fn begin(control: &ControlHandle, query: &str, headers: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /capture{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    (stream, String::from_utf8(head).unwrap())
}

#[test]
fn stalled_client_does_not_delay_the_end_of_its_capture() {
    let (view, inbox) = view();
    let (worker, ended) = show_frames(inbox);
    let control = serve(&view);
    let queries = ["?seconds=1", "?seconds=1", "?seconds=1", ""];
    let stalled = queries.map(|query| begin(&control, query, ""));
    for (id, (_, head)) in (1..).zip(&stalled) {
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains(&format!("x-xoff-capture: {id}\r\n")), "{head}");
    }
    let mut ids: Vec<u64> = (0..3).map(|_| ended.recv_timeout(PATIENCE).unwrap().0).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3], "captures do not end at their time limit");
    let url = format!("http://{}/capture/4", control.address().unwrap());
    assert_eq!(ureq::delete(url).call().unwrap().status().as_u16(), 204);
    assert_eq!(ended.recv_timeout(PATIENCE).unwrap(), TapId(4));
    let begun = std::time::Instant::now();
    while begin(&control, "?seconds=1", "").1.starts_with("HTTP/1.1 503") {
        assert!(begun.elapsed() < PATIENCE, "ended captures still count as running");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(stalled);
    stop_worker(&view, worker);
}

#[test]
fn capture_sends_exactly_the_requested_frames() {
    let (view, inbox) = view();
    let (worker, _ended) = show_frames(inbox);
    let control = serve(&view);
    let headers = "Accept-Encoding: gzip\r\nConnection: close\r\n";
    let (mut stream, head) = begin(&control, "?port=left&count=5000&snap=60", headers);
    assert!(
        head.contains("content-type: application/x-pcapng") && !head.contains("encoding: gzip"),
        "{head}"
    );
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    let packet = [6_u32.to_le_bytes(), 116_u32.to_le_bytes()].concat();
    assert_eq!(body.windows(8).filter(|bytes| *bytes == packet).count(), 5_000);
    stop_worker(&view, worker);
}

#[test]
fn web_page_cannot_start_a_capture() {
    let (view, _inbox) = view();
    let control = serve(&view);
    for header in ["Origin: http://localhost", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: no-cors"] {
        let (mut stream, head) = begin(&control, "?count=1", &format!("{header}\r\nConnection: close\r\n"));
        assert!(head.starts_with("HTTP/1.1 403"), "{header}: {head}");
        let mut why = String::new();
        stream.read_to_string(&mut why).unwrap();
        assert_eq!(why, "captures are for programs, and not for web pages; use `xoff capture`\n");
    }
}
