//! Follows changes of the device by other programs: name, address, XDP program and offloads.

use std::sync::atomic::Ordering::Relaxed;

use super::{Agent, AgentError};
use crate::guard::now;
use crate::view::xdp_warning;

impl Agent {
    pub(super) fn follow_device(&mut self) -> Result<(), AgentError> {
        let device = match self.reader.read() {
            Ok(Some(device)) => device,
            Ok(None) => return Err(self.removed()),
            Err(_) => return Ok(()), // the kernel lacks memory: read again in a second
        };
        let before = self.view.device.get();
        if *before != device.name {
            tracing::warn!(
                device = %device.name,
                "the device was renamed, and the agent continues; its next start needs the new name instead of {before}"
            );
            self.egress.renamed(&device.name);
            self.view.device.set(device.name);
        }
        if device.address != self.view.address() {
            self.controller.set_address(device.address);
            self.view.address.set(device.address.to_number());
            tracing::info!(address = %device.address, "the device's address has changed");
        }
        self.follow_program(device.program)?;
        self.follow_offloads()
    }

    fn follow_program(&mut self, program: Option<u32>) -> Result<(), AgentError> {
        let number = program.map_or(0, u64::from);
        if number == self.view.xdp_program.get() {
            return Ok(());
        }
        // First count the pauses that arrived before the XDP program: they do not show that it passes pauses on.
        self.receive()?;
        self.publish(now());
        self.view.pauses_before.set(self.view.pauses_received());
        self.view.xdp_program.set(number);
        let device = self.view.device.get();
        match program {
            Some(program) => tracing::warn!("{}", xdp_warning(&device, program)),
            None => {
                tracing::info!(%device, "the XDP program was removed; MAC control reaches the agent again")
            }
        }
        Ok(())
    }

    fn follow_offloads(&mut self) -> Result<(), AgentError> {
        let repaired = self.egress.repair_offloads();
        let was_changed = self.view.offloads_changed.load(Relaxed);
        match &repaired {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                self.view.offload_repairs.add(1);
                let repairs = self.view.offload_repairs.get();
                if repairs.is_power_of_two() {
                    tracing::warn!(
                        repairs,
                        "another program changed offloads ({}), and the agent set them again; superframes, or frames without checksum, \
                         may have left meanwhile: exclude {} in that program (NetworkManager, udev, tuned)",
                        found.join(", "),
                        self.view.device.get()
                    );
                }
            }
            Err(error) => {
                self.expect_device()?;
                if !was_changed {
                    tracing::error!(
                        "{error}; superframes, or frames without checksum, may leave. The agent tries again every second"
                    );
                }
            }
        }
        self.view.offloads_changed.store(repaired.is_err(), Relaxed);
        Ok(())
    }

    pub(super) fn expect_device(&self) -> Result<(), AgentError> {
        match self.reader.read() {
            Ok(None) => Err(self.removed()),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    fn removed(&self) -> AgentError {
        AgentError::DeviceRemoved(self.view.device.get().as_ref().clone())
    }
}
