//! Response times below zero, of zero, and longest ones below the mean.

use super::{Told, short};

pub fn check(told: &Told) -> Vec<String> {
    let mut found = Vec::new();
    let mut not_above_zero = |which: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| *value <= 0.0) {
            found.push(format!("a {which} response time of {} µs", short(value)));
        }
    };
    not_above_zero("mean", told.latency_mean_us);
    not_above_zero("longest", told.latency_max_us);
    if let (Some(mean), Some(max)) = (told.latency_mean_us, told.latency_max_us)
        && max < mean
    {
        found.push(format!(
            "the longest response time, {} µs, is below the mean, {} µs",
            short(max),
            short(mean)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_told() {
        let told = |mean: f64, max: f64| {
            check(&Told {
                latency_mean_us: Some(mean),
                latency_max_us: Some(max),
                ..Told::default()
            })
            .len()
        };
        assert_eq!(told(7.0, 8.0), 0);
        assert_eq!(told(7.0, 6.0), 1);
        assert_eq!(told(7.0, 0.0), 2);
        assert_eq!(told(-1.0, 0.0), 2);
        assert_eq!(check(&Told::default()).len(), 0);
    }
}
