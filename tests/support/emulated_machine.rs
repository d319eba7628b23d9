//! A whole machine in QEMU, with hardware that this one may lack: a network card with SR-IOV (QEMU's igb) behind an IOMMU.
//! Its first program is a shell script, and the vioperf under test is there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vioperf_lab::initramfs::newc::Writer;
use vioperf_lab::kernel::ModuleTree;
use vioperf_lab::kernel::find::{Request, find};

use super::VIOPERF;
use super::world::kernel_cache;

/// No machine of a test runs longer; under software emulation on a busy machine it takes a third of it.
const BOUND: Duration = Duration::from_secs(300);

/// What its kernel loads, in an order that is good for all.
const MODULES: &[&str] = &[
    "igb",
    "igbvf",
    "macvlan",
    "veth",
    "bridge",
    "8021q",
    "tun",
    "macvtap",
    "vfio_pci",
    "vfio_iommu_type1",
    // For what it has of this machine.
    "virtio_pci",
    "9pnet_virtio",
    "9p",
];

/// What a script begins with that wants this machine's QEMU and guest kernels: they are there to be read.
pub const WITH_QEMU: &str = "
share() { mkdir -p $2; mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose $1 $2; }
share usr /usr
share kernels /root/.cache/vioperf/kernels
export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu PATH=/bin:/usr/bin:/usr/sbin
";

/// What comes before the script of a test. The second serial port takes what the test reads.
const BEFORE: &str = "#!/bin/busybox sh
export PATH=/bin HOME=/root
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in /lib/modules/*; do insmod $module; done
ip link set lo up
exec 3>/dev/ttyS1
cd /root
";

/// Writes files to an archive, each folder before what is in it.
struct Archive {
    out: Writer<BufWriter<File>>,
    folders: BTreeSet<PathBuf>,
}

impl Archive {
    fn folder(&mut self, folder: &Path) {
        if folder.as_os_str().is_empty() || !self.folders.insert(folder.to_owned()) {
            return;
        }
        self.folder(folder.parent().unwrap());
        self.out.directory(folder.to_str().unwrap()).unwrap();
    }

    fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        let path = path.trim_start_matches('/');
        self.folder(Path::new(path).parent().unwrap());
        self.out.file(path, mode, bytes).unwrap();
    }
}

/// What a machine said.
pub struct Said {
    /// On its console.
    pub console: String,
    /// What the script wrote to descriptor 3.
    pub answer: String,
}

/// Boots one that runs `script` and switches itself off.
pub fn run(script: &str) -> Said {
    run_on(2, script)
}

/// The same with so many cores.
pub fn run_on(cores: u8, script: &str) -> Said {
    let folder = tempfile::Builder::new().prefix("vioperf-test-").tempdir().unwrap();
    let kernel = find(&Request {
        image: None,
        modules: None,
        root: Path::new("/"),
        running: "",
        cache: &kernel_cache(),
        wanted: MODULES,
    })
    .expect("this test boots a kernel: `vioperf kernel fetch --if-needed`");
    let tree = kernel.module_tree().unwrap();
    let archive = write_archive(&folder, &tree, script);
    let answer = folder.path().join("answer");
    let mut command = Command::new("qemu-system-x86_64");
    command.args([
        "-M",
        "q35",
        // All cores in one thread: more cores than this machine has wait for each other's threads, and one that
        // was halted was seen never to wake again.
        "-accel",
        "tcg,thread=single",
        "-cpu",
        "max",
        "-smp",
        &cores.to_string(),
        "-m",
        "2G",
    ]);
    command.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]);
    command.arg("-serial").arg(format!("file:{}", answer.display()));
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&archive);
    // A core that waits for its turn on a busy machine is no stall, and to look at it may be its end.
    let patience = "rcupdate.rcu_cpu_stall_suppress=1";
    let settings = "console=ttyS0 quiet intel_iommu=on mitigations=off panic=-1";
    command.args(["-append", &format!("{settings} {patience}")]);
    // The card's cable leads to a hub without anything else.
    command.args(["-device", "intel-iommu,intremap=off", "-device", "pcie-root-port,id=root0"]);
    command.args(["-netdev", "hubport,id=cable,hubid=0", "-device", "igb,bus=root0,netdev=cable"]);
    for (tag, path) in [("usr", Path::new("/usr")), ("kernels", &kernel_cache())] {
        let path = path.display();
        let share = format!("local,path={path},mount_tag={tag},security_model=none,readonly=on");
        command.args(["-virtfs", &share]);
    }
    let console = folder.path().join("console");
    command.stdin(Stdio::null()).stdout(File::create(&console).unwrap());
    command.stderr(Stdio::inherit());
    let mut machine = command.spawn().expect("this test needs qemu-system-x86_64");
    let deadline = Instant::now() + BOUND;
    let status = loop {
        if let Some(status) = machine.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= deadline {
            machine.kill().unwrap();
            machine.wait().unwrap();
            panic!("the machine does not end; it said:\n{}", read(&console));
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = Said { console: read(&console), answer: read(&answer) };
    assert!(status.success(), "{status}; it said:\n{}", said.console);
    said
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).replace('\r', "")
}

fn write_archive(folder: &TempDir, tree: &ModuleTree, script: &str) -> PathBuf {
    let path = folder.path().join("initramfs");
    let out = Writer::new(BufWriter::new(File::create(&path).unwrap()));
    let mut archive = Archive { out, folders: BTreeSet::new() };
    for folder in ["dev", "proc", "sys", "tmp", "root"] {
        archive.folder(Path::new(folder));
    }
    archive.out.character_device("dev/console", 0o600, 5, 1).unwrap();
    archive.out.character_device("dev/null", 0o666, 1, 3).unwrap();
    let script = format!("{BEFORE}{script}\npoweroff -f\n");
    archive.file("init", 0o755, script.as_bytes());
    let busybox =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    let busybox = busybox.expect("this test needs busybox-static");
    archive.file("bin/busybox", 0o755, &fs::read(busybox).unwrap());
    archive.file("bin/vioperf", 0o755, &fs::read(VIOPERF).unwrap());
    // Of a static one there are none.
    let needed: BTreeSet<String> = [busybox, VIOPERF].into_iter().flat_map(libraries).collect();
    for library in needed {
        archive.file(&library, 0o755, &fs::read(&library).unwrap());
    }
    for (index, module) in tree.collect(MODULES, &[]).unwrap().files().iter().enumerate() {
        archive.file(&format!("lib/modules/{index:03}-{}.ko", module.name), 0o644, &module.bytes);
    }
    archive.out.finish().unwrap();
    path
}

/// The files that the dynamic loader needs for a program, itself among them.
fn libraries(program: &str) -> Vec<String> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let path = |line: &str| {
        line.split_ascii_whitespace().find(|word| word.starts_with('/')).map(str::to_owned)
    };
    text.lines().filter_map(path).collect()
}
