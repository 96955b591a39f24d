//! Moments, as people write and read them: in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// Reads how long ago something was, or when; gives milliseconds since 1970.
pub(crate) fn moment(text: &str) -> Result<u64, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let seconds = ago(text)
        .map(|ago| now.saturating_sub(ago))
        .or_else(|| date(text));
    seconds
        .and_then(|seconds| seconds.checked_mul(1000))
        .ok_or_else(|| {
            "expected a time like `90s`, `15m`, `2h`, `7d`, `2026-01-31` or `2026-01-31T12:00`"
                .to_owned()
        })
}

fn ago(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => DAY,
        _ => return None,
    };
    count.checked_mul(seconds)
}

/// `2026-01-31`, and after a `T` or a blank `12:00` or `12:00:00`, with or without `Z`.
fn date(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, between: char| -> Option<Vec<u64>> {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let parts = text.split(between);
        parts
            .map(|part| digits(part).then(|| part.parse().ok())?)
            .collect()
    };
    let (day, mut time) = (numbers(day, '-')?, numbers(time, ':')?);
    if time.len() == 2 {
        time.push(0);
    }
    let ([year, month, day], [hour, minute, second]) = (day.as_slice(), time.as_slice()) else {
        return None;
    };
    let fine = (1970..10_000).contains(year) && (1..=12).contains(month) && *hour < 24;
    if !fine || *minute > 59 || *second > 59 {
        return None;
    }
    let days = days_before(*year, *month) + day.checked_sub(1)?;
    // The 31st of a month of 30 days is none.
    (days < days_before(*year, *month + 1))
        .then_some(days * DAY + hour * 3600 + minute * 60 + second)
}

/// Milliseconds since 1970, as a date and a time.
pub(super) fn shown(millis: u64) -> String {
    let seconds = Duration::from_millis(millis).as_secs();
    let (days, rest) = (seconds / DAY, seconds % DAY);
    let mut year = 1970 + days / 366;
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12)
        .rev()
        .find(|month| days_before(year, *month) <= days)
        .unwrap_or(1);
    let day = days - days_before(year, month) + 1;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Days from 1970 to the first of a month; the 13th is the next year's first.
fn days_before(year: u64, month: u64) -> u64 {
    let (year, month) = if month > 12 {
        (year + 1, 1)
    } else {
        (year, month)
    };
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let months = (1..month).map(|month| match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    });
    years + months.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_shown() {
        // `date -u -d … +%s`
        for (text, seconds, told) in [
            ("1970-01-01", 0, "1970-01-01 00:00:00"),
            ("2000-02-29T23:59:59Z", 951_868_799, "2000-02-29 23:59:59"),
            ("2026-01-31 12:00", 1_769_860_800, "2026-01-31 12:00:00"),
            ("2028-12-31T00:00", 1_861_833_600, "2028-12-31 00:00:00"),
            ("2100-03-01", 4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(moment(text), Ok(seconds * 1000), "{text}");
            assert_eq!(shown(seconds * 1000), told);
        }
        for wrong in [
            "",
            "x",
            "h",
            "-1h",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-01-00",
            "2026-01-01T24:00",
            "1m2",
        ] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
        let hour = moment("1h").unwrap();
        let now = moment("0s").unwrap();
        assert!((3_600_000..3_602_000).contains(&(now - hour)));
    }
}
