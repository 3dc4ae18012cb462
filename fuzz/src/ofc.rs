use xoff_wire::ofc::LEN_MAX;
use xoff_wire::units::MacAddr;
use xoff_wire::{FlowPause, FlowPauseWriter, Header, MacControl, MacControlError};

pub fn check(bytes: &[u8]) {
    let Some(header) = Header::parse(bytes).ok().filter(MacControl::is_mac_control) else { return };
    match FlowPause::of_frame(&header, bytes) {
        Ok(Some(list)) => {
            let mut again = vec![0; bytes.len().max(LEN_MAX)];
            let src = MacAddr([2, 0, 0, 0, 0, 1]);
            let mut writer = FlowPauseWriter::new(&mut again, src, list.operation, list.class);
            assert!(
                list.flows().all(|flow| writer.push(&flow)),
                "the flows of a received flow list must fit into one frame"
            );
            assert!(writer.flows() > 0);
            let again = writer.finish();
            let header = Header::parse(again).expect("an encoded flow list must have a valid header");
            let reread = FlowPause::of_frame(&header, again)
                .expect("an encoded flow list must be well-formed")
                .expect("an encoded flow list must be parsed as a flow list");
            assert_eq!((reread.operation, reread.class), (list.operation, list.class));
            assert!(reread.flows().eq(list.flows()));
        }
        Ok(None) => (),
        Err(reason) => assert_eq!(MacControlError::ALL[reason.index()], reason),
    }
}
