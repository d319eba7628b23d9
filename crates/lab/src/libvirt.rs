//! Virtual machines that libvirt looks after, by its own program `virsh`: what there is, and one of them
//! with another NIC, or its NIC connected elsewhere, for as long as it is measured.
//!
//! Nothing is altered but by [`Loan`], which writes down first how to undo it.

mod domain_xml;
mod edit;
mod journal;
mod list;
mod loan;
mod sources;
mod virsh;

pub use domain_xml::XmlError;
pub use edit::{Edit, EditError};
pub use journal::{Entry, JournalError, Left};
pub use list::{FindError, Found, find, list};
pub use loan::{Loan, LoanError, Terms, obstacles};
pub use sources::missing;
pub use virsh::{Virsh, VirshError};
