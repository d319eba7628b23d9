//! TLS 1.3 for the control channel, with a certificate that nobody signed but that is known.
//!
//! There is no authority to ask about a machine in a rack. So a client knows the server's certificate
//! by its SHA-256 (`--tls-pin`), or both ends prove that they know a token on this very channel: the
//! proof is bound to the channel's exporter, which two channels through somebody in between do not
//! share (RFC 9266).

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::ops::DerefMut;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct,
    Error, ServerConfig, ServerConnection, SideData, SignatureScheme, StreamOwned,
};
use sha2::{Digest, Sha256};

use super::handshake::Binding;
use crate::conductor::channel::{Channel, Patience};

/// What the certificate is made out to: nobody asks.
const NAME: &str = "vioperf";
/// The exporter's label (RFC 9266 has one for everybody; ours is for this protocol alone).
const EXPORTER: &[u8] = b"EXPORTER-vioperf-token-proof";

/// The SHA-256 of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// What is no fingerprint of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no fingerprint: copy the one that `vioperf serve` prints, sha256: and 64 digits")]
pub struct PinError(String);

impl Pin {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        let wrong = || PinError(text.to_owned());
        let digits: String =
            text.strip_prefix("sha256:").ok_or_else(wrong)?.chars().filter(|c| *c != ':').collect();
        if digits.len() != 64 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut pin = [0; 32];
        for (place, at) in pin.iter_mut().zip((0..64).step_by(2)) {
            let pair = digits.get(at..at + 2).ok_or_else(wrong)?;
            *place = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(pin))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A server's certificate with its key.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    pin: Pin,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin).finish_non_exhaustive()
    }
}

impl Identity {
    /// Makes a certificate for as long as the server runs.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn fleeting() -> Result<Self> {
        let made = make()?;
        Self::new(made.certificate, made.key)
    }

    /// Takes certificate and key from PEM files; makes them if neither is there.
    ///
    /// # Errors
    /// When the files cannot be read, written or understood.
    pub fn kept(certificate: &Path, key: &Path) -> Result<Self> {
        if !certificate.exists() && !key.exists() {
            let made = make()?;
            write_new(key, 0o600, &made.key_pem)?;
            write_new(certificate, 0o644, &made.certificate_pem)?;
        }
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let found = CertificateDer::from_pem_slice(&read(certificate)?)
            .with_context(|| format!("{} holds no PEM certificate", certificate.display()))?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
            .with_context(|| format!("{} holds no PEM private key", key.display()))?;
        Self::new(found, secret).with_context(|| {
            format!("{} and {} do not go together", certificate.display(), key.display())
        })
    }

    fn new(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Result<Self> {
        let pin = Pin::of(&certificate);
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        Ok(Self { config: Arc::new(config), pin })
    }

    /// What clients know it by.
    pub fn pin(&self) -> Pin {
        self.pin
    }
}

struct Made {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    certificate_pem: String,
    key_pem: String,
}

fn make() -> Result<Made> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])
        .context("cannot make a certificate")?;
    let key_pem = made.signing_key.serialize_pem();
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
        .context("cannot take up the key that was just made")?;
    let certificate_pem = made.cert.pem();
    Ok(Made { certificate: made.cert.der().clone(), key, certificate_pem, key_pem })
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl<C, S> Channel for StreamOwned<C, TcpStream>
where
    C: DerefMut<Target = ConnectionCommon<S>> + fmt::Debug + Send,
    S: SideData,
{
    fn wait_at_most(&mut self, slice: Duration) -> io::Result<()> {
        self.sock.wait_at_most(slice)
    }
}

/// The server's side: `patience` bounds the wait.
///
/// # Errors
/// When the client does not speak TLS 1.3, or not in time.
pub fn accept(
    mut stream: TcpStream,
    identity: &Identity,
    patience: Patience<'_>,
) -> io::Result<(Box<dyn Channel>, Binding)> {
    let mut tls = ServerConnection::new(identity.config.clone()).map_err(io::Error::other)?;
    tls.complete_io(&mut patience.on(&mut stream))?;
    let binding = binding(&tls)?;
    Ok((Box::new(StreamOwned::new(tls, stream)), binding))
}

/// The client's side: `pin` is what the server's certificate has to be, if that is known.
///
/// # Errors
/// When the server does not speak TLS 1.3, has another certificate, or does not answer in time.
pub fn connect(
    mut stream: TcpStream,
    pin: Option<Pin>,
    patience: Patience<'_>,
) -> Result<(Box<dyn Channel>, Binding)> {
    let provider = provider();
    let verifier = Pinned { pin, provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let mut tls = ClientConnection::new(Arc::new(config), ServerName::try_from(NAME)?)?;
    if let Err(error) = tls.complete_io(&mut patience.on(&mut stream)) {
        let is_other_certificate = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Error>())
            .is_some_and(|error| matches!(error, Error::InvalidCertificate(_)));
        if is_other_certificate {
            bail!(
                "its certificate is not the one that --tls-pin names: it is another machine, or the \
                 server made a new one; compare with the fingerprint that `vioperf serve` prints"
            );
        }
        let hint = match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::ConnectionReset => {
                "; was it started with --tls?"
            }
            _ => "",
        };
        bail!("no TLS with the server: {error}{hint}");
    }
    let binding = binding(&tls)?;
    Ok((Box::new(StreamOwned::new(tls, stream)), binding))
}

fn binding<S>(tls: &ConnectionCommon<S>) -> io::Result<Binding> {
    tls.export_keying_material(Binding::default(), EXPORTER, None).map_err(io::Error::other)
}

/// Takes the one certificate that is known. Without one it takes any, and the proof of the token
/// shows whether the channel is the server's.
#[derive(Debug)]
struct Pinned {
    pin: Option<Pin>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.pin {
            Some(pin) if pin != Pin::of(end_entity) => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_comes_back_as_it_went() {
        let pin = Identity::fleeting().unwrap().pin();
        assert_eq!(pin.to_string().parse::<Pin>().unwrap(), pin);
        let upper = pin.to_string().replace("sha256:", "").to_uppercase();
        assert_eq!(format!("sha256:{upper}").parse::<Pin>().unwrap(), pin);
        for text in ["", "sha256:", "sha256:12", &upper, &format!("sha256:{}é", "a".repeat(62))] {
            assert!(text.parse::<Pin>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_made_once_is_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert"), folder.path().join("key"));
        let first = Identity::kept(&certificate, &key).unwrap().pin();
        assert_eq!(Identity::kept(&certificate, &key).unwrap().pin(), first);
        let other = folder.path().join("other");
        let error = Identity::kept(&certificate, &other).unwrap_err();
        assert!(format!("{error:#}").contains("other"), "{error:#}");
    }
}
