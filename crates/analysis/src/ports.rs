//! Which port of a lab's switch a party is on.

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::switch::port_role;

/// The port's name as the host's observer sees it: those of the endpoints are called as they are, a
/// guest's is in the record, or else the one tap. The host itself has none.
pub(crate) fn port_of<'a>(
    trial: &'a TrialRecord,
    host: &'a Party,
    place: Place,
) -> Option<&'a str> {
    let guest = trial.guest.as_ref();
    let other = || guest?.others.iter().find(|other| other.place == place)?.port.as_deref();
    let recorded = match place {
        Place::Guest => guest.and_then(|guest| guest.port.as_deref()),
        _ => other(),
    };
    if recorded.is_some() {
        return recorded;
    }
    let wanted = match place {
        Place::Peer => "peer",
        Place::Second => "second",
        Place::Guest => "tap",
        _ => return None,
    };
    let interfaces = host.report.samples.last()?.interfaces.as_ref()?;
    let is_it = |name: &&String| match place {
        Place::Guest => port_role(name).starts_with(wanted),
        _ => port_role(name) == wanted,
    };
    let mut found = interfaces.keys().filter(is_it);
    match (found.next(), found.next()) {
        (Some(port), None) => Some(port),
        _ => None,
    }
}
