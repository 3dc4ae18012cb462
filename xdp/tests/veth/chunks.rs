// Tests for SPECIFICATION.md: memory

use xoff_dataplane::driver::Port as _;
use xoff_dataplane::frame::FrameStore as _;
use xoff_ebpf::Mode;
use xoff_lab::VethOptions;
use xoff_xdp::{PortDriver as _, PortOptions, ReceiveChunks, ZeroCopy};

use crate::{Bench, FLOWS, frame, one_device, open_one, port_options, send_flows, wait_for, wait_for_mut};

#[test]
fn frame_longer_than_chunk_takes_several_chunks() {
    let options = VethOptions { mtu: 9000, ..VethOptions::default() };
    let mut bench = Bench::new(&options, |port| port.multi_buffer = true);
    let lens = [60, 1792, 1793, 3584, 8042, 9014];
    lens.iter().zip(0..).for_each(|(&len, n)| bench.hosts[0].send(&frame(n, len)));
    bench.forward(lens.len());
    for (&len, n) in lens.iter().zip(0..) {
        assert_eq!(bench.hosts[1].receive(), frame(n, len));
    }
    // This frame fills its chunks completely, then grows by four bytes in front.
    bench.hosts[0].send(&frame(9, 3584));
    bench.forward_changed(1, |store, port, frame| {
        assert!(store.stage(port, frame) && store.move_start(frame, -4));
        store.head_mut(frame)[..14].copy_from_slice(&self::frame(0, 14));
    });
    let grown = bench.hosts[1].receive();
    assert_eq!((grown.len(), &grown[18..]), (3588, &frame(9, 3584)[14..]));
    bench.assert_clean();
}

#[test]
fn chunk_of_4096_bytes_holds_frame_of_3514_bytes() {
    let options = VethOptions { mtu: 3500, ..VethOptions::default() };
    let mut bench = Bench::new(&options, |port| port.chunk_bytes = 4096);
    bench.hosts[0].send(&frame(1, 3514));
    bench.forward(1);
    assert_eq!(bench.hosts[1].receive(), frame(1, 3514));
    bench.assert_clean();
}

#[test] // proves: frames
fn oversized_frame_is_counted_but_not_as_loss() {
    let options = VethOptions { mtu: 3500, ..VethOptions::default() };
    let mut bench = Bench::new(&options, |_| {});
    for len in [1792, 1793] {
        bench.hosts[0].send(&frame(1, len));
    }
    bench.forward(1);
    assert_eq!(bench.hosts[1].receive().len(), 1792);
    wait_for(|| (bench.ports[0].monitor().xdp_statistics().unwrap().rx_too_long == 1).then_some(()));
    assert_eq!(bench.ports[0].monitor().xdp_statistics().unwrap().lost(), 0);
}

#[test]
fn small_chunks_carry_frames_of_all_lengths() {
    let modes: [fn(&mut PortOptions); 2] =
        [|port| port.mode = Some(Mode::Native), |port| port.mode = Some(Mode::Generic)];
    for mode in modes {
        let options = VethOptions { mtu: 9000, ..VethOptions::default() };
        let mut lab = Bench::new(&options, |port| {
            (port.receive_size, port.multi_buffer) = (ReceiveChunks::Small, true);
            mode(port);
        });
        let lens = [60, 511, 512, 513, 1024, 1025, 1514, 1792, 1793, 9014];
        // The frames of 20 rounds take more chunks than the port has (512), so that chunks are used again.
        for round in 0..20 {
            for (n, &len) in lens.iter().enumerate() {
                lab.hosts[0].send(&frame(u8::try_from(10 * round + n).unwrap(), len));
            }
            lab.forward(lens.len());
            for (n, &len) in lens.iter().enumerate() {
                let received = lab.hosts[1].receive();
                assert!(received == frame(u8::try_from(10 * round + n).unwrap(), len), "{len} bytes");
            }
        }
        lab.assert_clean();
    }
}

#[test]
fn small_receive_chunks_work_with_several_queues() {
    let options = VethOptions { queues: 2, ..VethOptions::default() };
    let mut bench = Bench::new(&options, |port| port.receive_size = ReceiveChunks::Small);
    for _ in 0..20 {
        send_flows(&bench.hosts[0], 1514);
        bench.forward(FLOWS.into());
        (0..FLOWS).for_each(|_| assert_eq!(bench.hosts[1].receive().len(), 1514));
    }
    assert!(bench.ports.iter().all(|port| port.monitor().xdp_statistics().unwrap().lost() == 0));
}

#[test]
fn zero_copy_with_small_receive_chunks_is_refused() {
    let (_lab, switch) = one_device();
    let options =
        PortOptions { receive_size: ReceiveChunks::Small, zero_copy: ZeroCopy::On, ..port_options("p0") };
    let error = switch.run(|| open_one(&options).map(drop)).unwrap_err().to_string();
    assert!(error.contains("small receive chunks overlap"), "{error}");
}

#[test]
fn frames_survive_writes_to_adjacent_small_chunks() {
    for mode in [Mode::Native, Mode::Generic] {
        let mut bench = Bench::new(&VethOptions::default(), |port| {
            port.receive_size = ReceiveChunks::Small;
            port.mode = Some(mode);
        });
        let mut held = Vec::new();
        for n in 0..60 {
            bench.hosts[0].send(&frame(n, 512));
            let port = &mut bench.ports[0];
            let mut received = Vec::new();
            wait_for_mut(|| {
                port.refill(&mut bench.store);
                port.receive(&mut bench.store, 1, |_, frame| received.push(frame));
                !received.is_empty()
            });
            match n % 2 {
                0 => held.extend(received.into_iter().map(|frame| (n, frame))),
                _ => received.into_iter().for_each(|frame| bench.store.free(frame)),
            }
        }
        for (n, received) in held {
            let bytes: Vec<u8> = bench.store.fragments(&received).flatten().copied().collect();
            assert_eq!(bytes, frame(n, 512), "frame {n}");
            bench.store.free(received);
        }
        bench.assert_clean();
    }
}
