use super::settle::Step;
use super::*;

fn lost(sent: u64, lost: u64) -> Ledger {
    Ledger { sent, lost, received: sent - lost, ..Ledger::default() }
}

fn losses(ledger: &Ledger) -> Vec<(LossPlace, u64, u64)> {
    ledger.losses.iter().map(|loss| (loss.place, loss.datagrams, loss.counted)).collect()
}

#[test]
fn a_counter_of_drops_tells_and_the_rest_is_the_difference() {
    let mut ledger = lost(1000, 400);
    let steps = [
        Step {
            dropped: vec![(LossPlace::SenderQdisc, 100)],
            passed: Some(900),
            else_at: Some(LossPlace::SenderSocket),
            ..Step::default()
        },
        Step { passed: Some(850), else_at: Some(LossPlace::Switch), ..Step::default() },
        Step { dropped: vec![(LossPlace::TapQueue, 50)], ..Step::default() },
        Step {
            at_most: vec![(LossPlace::ReceiverInterface, 500)],
            passed: Some(600),
            else_at: Some(LossPlace::TooLate),
            ..Step::default()
        },
    ];
    settle(&mut ledger, &steps);
    let expected = [
        (LossPlace::SenderQdisc, 100, 100),
        (LossPlace::Switch, 50, 0),
        (LossPlace::TapQueue, 50, 50),
        (LossPlace::ReceiverInterface, 200, 200),
    ];
    assert_eq!(losses(&ledger), expected);
    assert_eq!((ledger.unaccounted, ledger.placed_share()), (0, 1.0));
    assert_eq!(ledger.share_of_loss(LossPlace::ReceiverInterface), 0.5);
    assert_eq!(ledger.largest_loss().unwrap().place, LossPlace::ReceiverInterface);
}

#[test]
fn packets_of_others_are_no_losses() {
    // Seven words are sent after the load, two of ARP never come to IP: nothing of it is lost.
    let mut ledger = lost(1000, 10);
    let steps = [
        Step { passed: Some(1007), else_at: Some(LossPlace::SenderSocket), ..Step::default() },
        Step { passed: Some(997), else_at: Some(LossPlace::Switch), ..Step::default() },
        Step { passed: Some(995), else_at: Some(LossPlace::ReceiverFilter), ..Step::default() },
    ];
    settle(&mut ledger, &steps);
    assert_eq!(losses(&ledger), [(LossPlace::Switch, 10, 0)]);
    assert_eq!(ledger.unaccounted, 0);
}

#[test]
fn words_that_are_dropped_with_the_load_are_not_its_losses() {
    let mut ledger = lost(1000, 600);
    let steps = [
        Step { passed: Some(1003), else_at: Some(LossPlace::SenderSocket), ..Step::default() },
        Step { dropped: vec![(LossPlace::TapQueue, 602)], passed: Some(401), ..Step::default() },
    ];
    settle(&mut ledger, &steps);
    assert_eq!(losses(&ledger), [(LossPlace::TapQueue, 600, 600)]);
    assert_eq!(ledger.unaccounted, 0);
    // But not more of them than there were.
    let mut ledger = lost(1000, 590);
    settle(&mut ledger, &steps);
    assert_eq!((ledger.lost_at(LossPlace::TapQueue), ledger.unaccounted), (599, -9));
}

#[test]
fn what_is_counted_twice_or_not_at_all_is_shown() {
    let step = |dropped| Step {
        dropped: vec![(LossPlace::Port, dropped)],
        passed: None,
        ..Step::default()
    };
    let mut twice = lost(1000, 100);
    settle(&mut twice, &[step(60), step(60)]);
    assert_eq!((losses(&twice), twice.unaccounted), (vec![(LossPlace::Port, 120, 120)], -20));
    assert!((twice.placed_share() - 0.8).abs() < 1e-12);
    let mut never = lost(1000, 100);
    settle(&mut never, &[step(60)]);
    assert_eq!((never.lost_at(LossPlace::Port), never.unaccounted), (60, 40));
    twice.add(&never);
    assert_eq!((twice.lost, twice.lost_at(LossPlace::Port), twice.unaccounted), (200, 180, 20));
}

#[test]
fn places_are_listed_in_the_order_of_the_path() {
    assert!(LossPlace::ALL.is_sorted());
    let mut titles: Vec<&str> = LossPlace::ALL.iter().map(|place| place.title()).collect();
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), LossPlace::ALL.len());
}
