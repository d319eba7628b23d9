//! More cores than a machine has, or busier ones than can be.

use super::{Told, ToldMachine, short};

/// By how much all cores together may seem busier than they can be, as a part of it: time is
/// counted in ticks.
const TOLERANCE: f64 = 0.1;
/// The same of one core whose number is printed whole.
const ROUNDED: f64 = 100.5;

pub fn check(told: &Told) -> Vec<String> {
    told.machines.iter().flat_map(of_machine).collect()
}

fn of_machine(machine: &ToldMachine) -> Vec<String> {
    let mut found = Vec::new();
    let ToldMachine { name, cores, cores_said, percent_of_core, percent_of_all } = machine;
    for percent in percent_of_core.iter().filter(|percent| **percent > ROUNDED) {
        found.push(format!("{name}: a core that was busy for {} %", short(*percent)));
    }
    for percent in percent_of_core.iter().filter(|percent| **percent < 0.0) {
        found.push(format!("{name}: a core that was busy for {} %", short(*percent)));
    }
    let Some(cores) = *cores else { return found };
    if percent_of_core.len() as f64 > f64::from(cores) {
        found.push(format!(
            "{name} has {cores} cores, but {} percentages are told",
            percent_of_core.len()
        ));
    }
    if let Some(said) = cores_said.filter(|said| *said > cores) {
        found.push(format!("{name} has {cores} cores, but {said} are told"));
    }
    let most = 100.0 * f64::from(cores) * (1.0 + TOLERANCE);
    if let Some(percent) = percent_of_all.filter(|percent| *percent > most) {
        found.push(format!(
            "{name} was busy for {} % of a core, but has {cores} cores",
            short(percent)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_have_no_three_percentages() {
        let told = |machine: ToldMachine| {
            check(&Told { machines: vec![machine], ..Told::default() }).len()
        };
        let two = ToldMachine { name: "guest".into(), cores: Some(2), ..ToldMachine::default() };
        assert_eq!(told(ToldMachine { percent_of_core: vec![100.0, 60.0], ..two.clone() }), 0);
        assert_eq!(told(ToldMachine { percent_of_core: vec![65.0, 38.0, 38.0], ..two.clone() }), 1);
        assert_eq!(told(ToldMachine { percent_of_core: vec![120.0, -1.0], ..two.clone() }), 2);
        assert_eq!(told(ToldMachine { percent_of_all: Some(230.0), ..two.clone() }), 1);
        assert_eq!(told(ToldMachine { percent_of_all: Some(201.0), ..two.clone() }), 0);
        assert_eq!(told(ToldMachine { cores_said: Some(4), ..two.clone() }), 1);
        assert_eq!(told(ToldMachine { percent_of_core: vec![1.0; 3], cores: None, ..two }), 0);
    }
}
