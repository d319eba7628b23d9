//! Which port of a lab's switch a party is on.

use vioperf_model::record::{Party, Place, TrialRecord};

/// The port's name as the host's observer sees it: those of the endpoints are called as they are, a
/// guest's is in the record, or else the one tap.
pub(crate) fn port_of<'a>(
    trial: &'a TrialRecord,
    host: &'a Party,
    place: Place,
) -> Option<&'a str> {
    let recorded = trial.guest.as_ref().filter(|_| place == Place::Guest);
    if let Some(port) = recorded.and_then(|guest| guest.port.as_deref()) {
        return Some(port);
    }
    let wanted = match place {
        Place::Peer => "peer",
        Place::Second => "second",
        Place::Guest => "tap",
        Place::Host | Place::Client | Place::Server => return None,
    };
    let interfaces = host.report.samples.last()?.interfaces.as_ref()?;
    let is_it = |name: &&String| match place {
        Place::Guest => name.starts_with(wanted),
        _ => *name == wanted,
    };
    let mut found = interfaces.keys().filter(is_it);
    match (found.next(), found.next()) {
        (Some(port), None) => Some(port),
        _ => None,
    }
}
