//! How long the loops run, and how a case that fails is told.

use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

/// Seconds in which a loop begins new cases: few on a developer's machine, more where everything is tested.
fn time() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "tests may look")]
    let variable = |name| std::env::var(name).ok();
    let given = variable("WHARFINGER_FUZZ_SECONDS").and_then(|seconds| seconds.parse().ok());
    let usual = if variable("CI").as_deref() == Some("true") {
        30
    } else {
        3
    };
    Duration::from_secs(given.unwrap_or(usual))
}

/// Runs cases until the time is over. One that fails is made as small as it goes, and shown.
pub(crate) fn for_a_while<S: Strategy>(strategy: &S, case: impl Fn(S::Value) -> TestCaseResult) {
    let end = Instant::now() + time();
    let mut cases = 0;
    while Instant::now() < end {
        // Few at a time, since only between them the clock is looked at.
        let config = Config {
            cases: 4,
            failure_persistence: None,
            max_shrink_iters: 4096,
            max_shrink_time: 30_000,
            ..Config::default()
        };
        cases += config.cases;
        if let Err(error) = TestRunner::new(config).run(strategy, &case) {
            panic!("{error}");
        }
    }
    // Shown with `--nocapture`.
    #[expect(clippy::print_stderr, reason = "tests may talk")]
    {
        eprintln!("{cases} cases");
    }
}

/// Runs a body, and gives what it said when it panicked.
pub(crate) fn outcome(body: impl FnOnce() + std::panic::UnwindSafe) -> Result<(), String> {
    std::panic::catch_unwind(body).map_err(|said| {
        let text = said.downcast_ref::<String>().cloned();
        let text = text.or_else(|| said.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_default()
    })
}
