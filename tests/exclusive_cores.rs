//! Cores that nobody else is on: had, told, and given back, also when nobody is left to see to it. The machine is an
//! emulated one, whose groups are all its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use support::emulated_machine;

/// `groups NAME` tells which groups there are, and which cores everything else has.
const SCRIPT: &str = r#"
short="--set undisturbed=false --set duration=500ms --set warmup=200ms --set direction=to-guest --set vcpus=1 --set reuse=none"
cat >/root/cores.toml <<'END'
name = "cores"
question = "Whose are they?"
[testbed]
switch = "bridge"
placement = "exclusive"
[workload]
kind = "tcp-stream"
duration = "500ms"
warmup = "200ms"
[guest]
vcpus = 1
[factors]
streams = 1
[repeat]
blocks = 1
END
vioperf run cores.toml --out=/tmp/none --quiet 2>&1 | grep -o 'cgroup v2 is not mounted' >&3
mount -t cgroup2 none /sys/fs/cgroup
groups() {
    echo "$1: $(cd /sys/fs/cgroup; ls -d */ 2>/dev/null | tr '\n' ' ') everybody on $(cat /sys/fs/cgroup/cpuset.cpus.effective), children $(cat /sys/fs/cgroup/cgroup.subtree_control)." >&3
}
groups before
vioperf run cores.toml --out=/tmp/run --quiet 2>&1
groups after
vioperf report /tmp/run --wide | tr -s ' \n' ' ' | grep -o 'Cores: .*nobody else was on them' >&3
vioperf explain /tmp/run baseline/1-stream/to-guest | grep 'may run on' >&3
killed() {
    vioperf run cores.toml --set duration=30s --out=/tmp/$1 2>/tmp/$1.said &
    outer=$!
    until grep -q . /sys/fs/cgroup/vioperf-exclusive/cgroup.procs 2>/dev/null; do sleep 0.1; done
    sleep 2
    [ $1 = inside ] && groups while
    # A program that anybody starts now is not on them.
    [ $1 = inside ] && grep Cpus_allowed_list /proc/self/status >&3
    inner=$(cat /proc/$outer/task/$outer/children | cut -d' ' -f1)
    if [ $1 = inside ]; then kill -9 $inner; else kill -9 $outer; fi
    wait $outer
}
killed inside
groups 'killed inside'
killed both
sleep 1
groups 'killed both'
vioperf run cores.toml --out=/tmp/next 2>/tmp/said
grep -o 'left to nobody by a run that was killed' /tmp/said >&3
groups next
# Somebody else has cores alone, and too few are left: told, and nothing is altered.
mkdir /sys/fs/cgroup/other
echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control
echo 1-2 > /sys/fs/cgroup/other/cpuset.cpus
echo root > /sys/fs/cgroup/other/cpuset.cpus.partition
vioperf run cores.toml --out=/tmp/refused 2>&1 | tr -s ' \n' ' ' | grep -o '3 cores are needed and 2 may be used' >&3
rmdir /sys/fs/cgroup/other
groups refused
"#;

#[test]
fn cores_are_had_alone_and_given_back() {
    let said = emulated_machine::run_on(4, SCRIPT);
    let (answer, console) = (&said.answer, &said.console);
    let line = |part: &str| {
        let found = answer.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no `{part}` in:\n{answer}\nand on the console:\n{console}"))
    };
    line("cgroup v2 is not mounted");
    for state in ["before", "after", "killed inside", "next"] {
        let said = line(&format!("{state}: "));
        assert!(said.contains("everybody on 0-3, children ."), "{said}\n{console}");
    }
    assert!(line("while: ").contains("vioperf-exclusive/  everybody on 0, children cpuset."));
    assert!(line("Cpus_allowed_list").trim_end().ends_with("\t0"));
    let left = line("killed both: ");
    assert!(left.contains("vioperf-exclusive/  everybody on 0,"), "{left}");
    line("left to nobody by a run that was killed");
    line("3 cores are needed and 2 may be used");
    assert!(!line("refused: ").contains("vioperf-exclusive"));
    line("nobody else was on them");
    let on = |process: &str| {
        let said = line(&format!("{process}, "));
        said.rsplit(": ").next().unwrap().trim().to_owned()
    };
    assert_eq!((on("second").as_str(), on("peer").as_str()), ("1", "2-3"));
}
