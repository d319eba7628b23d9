use proptest::prelude::*;

use super::*;

#[test]
fn a_message_comes_back_as_it_went() {
    let request = Request::LoadModules {
        names: vec!["virtio_net".into()],
        options: [("virtio_net".to_owned(), "napi_tx=0".to_owned())].into(),
    };
    let mut channel = Vec::new();
    write_frame(&mut channel, &request).unwrap();
    assert_eq!(read_frame::<Request>(&mut channel.as_slice()).unwrap(), request);
}

#[test]
fn a_long_announcement_is_refused_before_memory_is_taken() {
    let mut frame = (u32::MAX).to_be_bytes().as_slice().to_vec();
    frame.extend_from_slice(b"{}");
    let error = read_frame::<Request>(&mut frame.as_slice()).unwrap_err();
    assert!(matches!(error, WireError::TooLong { .. }), "{error}");
}

#[test]
fn an_end_inside_a_frame_is_an_end() {
    let error = read_frame::<Request>(&mut [0, 0, 0, 9, b'{'].as_slice()).unwrap_err();
    assert!(matches!(error, WireError::Closed), "{error}");
}

proptest! {
    #[test]
    fn almost_a_message_never_panics(which in 0_usize..4, edits in crate::testing::edits()) {
        let config = InterfaceConfig {
            interface: InterfaceSelector::Name("eth0".into()),
            address: "192.0.2.1".parse().unwrap(),
            further_addresses: vec![],
            prefix_length: 24,
            routes: vec![],
            mtu: 1500,
            settings: InterfaceSettings {
                offloads: [("gro".to_owned(), false)].into(),
                rps: Some("0,2".parse().unwrap()),
                ..InterfaceSettings::default()
            },
            ports: Some((28_672, 32_767)),
            timeout: TimeSpan::from_millis(5),
        };
        let prepare = Prepare {
            role: Role::Sender { peer: "[2001:db8::1]:5".parse().unwrap() },
            spread: Spread::default(),
            workload: Box::new(Workload::new(crate::workload::WorkloadKind::UdpStream)),
            sample_interval: TimeSpan::from_millis(100),
            processes: vec![WatchedProcess { label: "qemu".into(), pid: 1 }],
            burn: Some(Ratio::from_ppm(300_000)),
            burn_threads: Some(2),
            open_vswitch: Some("/run/db.sock".into()),
            counts_hardware: true,
            disk: Some("/dev/vda".into()),
            deadline: TimeSpan::from_millis(1000),
        };
        let requests = [
            Request::Hello { version: 1 },
            Request::ConfigureInterface(config),
            Request::Prepare(prepare),
            Request::Collect { from_sample: 7 },
        ];
        let mut frame = Vec::new();
        write_frame(&mut frame, &requests[which]).unwrap();
        let damaged = crate::testing::mutated(&frame, &edits);
        if let Ok(request) = read_frame::<Request>(&mut damaged.as_slice()) {
            let mut again = Vec::new();
            write_frame(&mut again, &request).unwrap();
            prop_assert_eq!(read_frame::<Request>(&mut again.as_slice()).unwrap(), request);
        }
        // The length is right, what it measures is not.
        let body = crate::testing::mutated(&frame[4..], &edits);
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let whole = [length.as_slice(), &body].concat();
        let _ = read_frame::<Request>(&mut whole.as_slice());
        let _ = read_frame::<Response>(&mut whole.as_slice());
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_frame::<Request>(&mut bytes.as_slice());
        let _ = read_frame::<Response>(&mut bytes.as_slice());
    }
}
