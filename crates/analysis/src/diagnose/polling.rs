//! A switch that polls: it takes a core, busy or not, and wants memory in huge pages.

use std::collections::BTreeSet;

use vioperf_model::plan::Cell;
use vioperf_model::record::FREE_HUGE_PAGES;

use super::{Evidence, about_run};
use crate::result::{Finding, Severity};

/// What else wants a core beside the virtual CPUs and the thread that polls: the peer, and what is left of QEMU and the
/// switch.
const OTHER_CORES: u32 = 2;

/// Huge pages of 2 MiB below which the switch does without them.
const ENOUGH_PAGES: u64 = 256;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let run = evidence.run;
    let polls = |cell: &&Cell| !cell.is_baseline() && cell.testbed.switch.row().polls;
    let cells: Vec<&Cell> = run.plan.cells.iter().filter(polls).collect();
    let switches: BTreeSet<&str> = cells.iter().map(|cell| cell.testbed.switch.name()).collect();
    let mut found = Vec::new();
    if switches.is_empty() {
        return found;
    }
    let names = switches.into_iter().collect::<Vec<_>>().join(", ");
    let of_cell = |cell: &&Cell| run.hypervisor_of(Some(cell)).map_or(1, |own| own.vcpus);
    let virtual_cpus = cells.iter().map(of_cell).max().unwrap_or(1);
    let wanted = u32::from(virtual_cpus) + 1 + OTHER_CORES;
    let cores = run.host.cores;
    if cores < wanted {
        found.push(about_run(
            "polling-takes-a-core",
            Severity::Doubt,
            &format!("{names} polls, and the host has no core to spare for that"),
            &format!(
                "{cores} cores, but {wanted} are wanted: one for the thread that polls, {virtual_cpus} for virtual \
                 CPUs, {OTHER_CORES} for the peer and the rest"
            ),
            "Measure it where there are more cores: here the guest and the peer wait for the switch. Its baseline has no \
             thread that polls.",
        ));
    }
    let pages = run.host.settings.get(FREE_HUGE_PAGES).and_then(|told| told.parse::<u64>().ok());
    if pages.unwrap_or(0) < ENOUGH_PAGES {
        found.push(about_run(
            "polling-without-huge-pages",
            Severity::Doubt,
            &format!("{names} had its buffers in small pages"),
            &match pages {
                Some(pages) => format!("{pages} huge pages of 2 MiB were free, {ENOUGH_PAGES} are wanted"),
                None => "the host has no huge pages of 2 MiB".to_owned(),
            },
            "DPDK is built for huge pages: set some aside (`sudo sysctl -w vm.nr_hugepages=512`) and measure again.",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn a_switch_that_polls_wants_cores_and_huge_pages() {
        let names = |prepare: &dyn Fn(&mut Synthetic)| {
            let mut synthetic = Synthetic::calm_kvm();
            synthetic.run.host.cores = 2;
            prepare(&mut synthetic);
            let found = analyse(&synthetic.run, &synthetic.trials).findings;
            let names = found.into_iter().map(|finding| finding.rule);
            names.filter(|name| name.starts_with("polling")).collect::<Vec<_>>()
        };
        let on_dpdk = |synthetic: &mut Synthetic| {
            for cell in &mut synthetic.run.plan.cells {
                cell.testbed.switch = "openvswitch-dpdk".parse().unwrap();
            }
        };
        assert!(names(&|_| ()).is_empty(), "another switch");
        assert_eq!(names(&on_dpdk), ["polling-takes-a-core", "polling-without-huge-pages"]);
        let roomy = |synthetic: &mut Synthetic| {
            on_dpdk(synthetic);
            synthetic.run.host.cores = 8;
            let pages = (super::FREE_HUGE_PAGES.to_owned(), "512".to_owned());
            synthetic.run.host.settings.extend([pages]);
        };
        assert!(names(&roomy).is_empty());
    }
}
