//! Percentiles, medians and rounding.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures of a benchmark need no more than 52 bits, and an index is not negative"
)]

use std::time::Duration;

use serde::Serialize;

/// Latencies in nanoseconds, summed up in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// How many.
    pub n: usize,
    /// The shortest.
    pub min_us: f64,
    /// The median.
    pub p50_us: f64,
    /// Nine in ten are no longer.
    pub p90_us: f64,
    /// 99 in a hundred are no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The arithmetic mean.
    pub mean_us: f64,
}

impl Summary {
    /// `None` when there is nothing to sum up.
    pub fn of(nanos: &mut [u64]) -> Option<Self> {
        let n = nanos.len();
        let mean = nanos.iter().sum::<u64>() as f64 / n as f64;
        let at = |nanos: &mut [u64], q| percentile(nanos, q).map(us);
        Some(Self {
            n,
            min_us: at(nanos, 0.0)?,
            p50_us: at(nanos, 0.5)?,
            p90_us: at(nanos, 0.9)?,
            p99_us: at(nanos, 0.99)?,
            max_us: at(nanos, 1.0)?,
            mean_us: us(mean),
        })
    }
}

/// The value that a share `q` of all values does not exceed; sorts them.
pub fn percentile(values: &mut [u64], q: f64) -> Option<f64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some(values[(last as f64 * q).round() as usize] as f64)
}

fn us(nanos: f64) -> f64 {
    round(nanos / 1000.0)
}

/// Three decimals below 100, one above: enough for any figure here.
pub fn round(value: f64) -> f64 {
    let scale = if value.abs() < 100.0 { 1000.0 } else { 10.0 };
    (value * scale).round() / scale
}

/// The middle of all finite values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(round(sorted[middle])),
        _ => Some(round(f64::midpoint(sorted[middle - 1], sorted[middle]))),
    }
}

/// A duration as whole nanoseconds.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> f64 {
    round(duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_summed_up() {
        let mut nanos: Vec<u64> = (1..=101).rev().map(|v| v * 1000).collect();
        let summary = serde_json::to_value(Summary::of(&mut nanos)).unwrap();
        let expect = serde_json::json!({
            "n": 101, "min_us": 1.0, "p50_us": 51.0, "p90_us": 91.0, "p99_us": 100.0, "max_us": 101.0, "mean_us": 51.0,
        });
        assert_eq!(summary, expect);
        assert!(Summary::of(&mut []).is_none());
    }

    #[test]
    fn a_median_is_the_middle_of_what_is_known() {
        let check = |values: &[f64], expect| assert_eq!(median(values), expect, "{values:?}");
        check(&[3.0, 1.0, f64::NAN, 2.0], Some(2.0));
        check(&[1.0, 2.0], Some(1.5));
        check(&[], None);
    }
}
