//! What it is measured on, and keeping processes on one core of it.

use std::fmt;
use std::fs;

#[cfg(target_os = "linux")]
use anyhow::Context as _;
use anyhow::Result;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    memory_gb: u64,
    /// Load average of the last minute when the run began.
    load: f64,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let value = |text: &str, key: &str, separator: char| {
            let line = text.lines().find(|line| line.starts_with(key));
            let value = line.and_then(|line| Some(line.split_once(separator)?.1.trim().to_owned()));
            value.unwrap_or_default()
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal", ':');
        let kilobytes = memory.split(' ').next().and_then(|kb| kb.parse().ok());
        let kilobytes: u64 = kilobytes.unwrap_or(0);
        let release = read("/proc/sys/kernel/osrelease");
        let load = read("/proc/loadavg");
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: value(&read("/proc/cpuinfo"), "model name", ':'),
            kernel: release
                .split('-')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned(),
            memory_gb: kilobytes.div_ceil(1 << 20),
            load: load
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cores,
            processor,
            kernel,
            memory_gb,
            load,
        } = self;
        write!(
            f,
            "{cores} × {processor}, {memory_gb} GB, Linux {kernel}, load {load}"
        )
    }
}

/// Keeps this thread, and what it starts meanwhile, on one core; until dropped.
#[cfg(target_os = "linux")]
pub(crate) struct Pinned(rustix::thread::CpuSet);

#[cfg(target_os = "linux")]
impl Pinned {
    pub(crate) fn to_one_core() -> Result<Self> {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let before = sched_getaffinity(None)?;
        // The first cores have most of the interrupts.
        let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| before.is_set(*cpu));
        let mut one = CpuSet::new();
        one.set(last.context("no core to run on")?);
        sched_setaffinity(None, &one)?;
        Ok(Self(before))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        rustix::thread::sched_setaffinity(None, &self.0).ok();
    }
}

/// Nothing to keep anything there with.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Pinned;

#[cfg(not(target_os = "linux"))]
impl Pinned {
    pub(crate) fn to_one_core() -> Result<Self> {
        anyhow::bail!("only Linux keeps processes on one core")
    }
}
