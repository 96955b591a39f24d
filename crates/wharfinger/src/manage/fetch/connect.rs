//! One connection to an address that was checked: names are resolved once, and TLS is spoken to the name.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use url::{Host, Url};

use super::{Addresses, Error};

/// How long one address may take to answer, so that the next one gets its turn.
const CONNECT: Duration = Duration::from_secs(10);

/// Addresses of a name.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Finds the addresses of a name.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// All of them, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// The resolver of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The roots of this machine. The platform's loader looks at `SSL_CERT_FILE` and `SSL_CERT_DIR`, as others do.
    pub system: bool,
    /// Roots besides, as PEM: those of a company's proxy, for instance.
    pub pem: Vec<u8>,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            system: true,
            pem: vec![],
        }
    }
}

impl Trust {
    /// Reads the roots; some milliseconds, so off the threads that answer.
    pub(super) async fn load(&self) -> Result<TlsConnector, Error> {
        let trust = self.clone();
        let config = tokio::task::spawn_blocking(move || trust.config()).await;
        config.map_err(|error| Error::Trust(error.to_string()))?
    }

    fn config(&self) -> Result<TlsConnector, Error> {
        let mut roots = RootCertStore::empty();
        let mut problems = vec![];
        if self.system {
            let loaded = rustls_native_certs::load_native_certs();
            problems.extend(loaded.errors.iter().map(ToString::to_string));
            roots.add_parsable_certificates(loaded.certs);
        }
        for certificate in CertificateDer::pem_slice_iter(&self.pem) {
            let added = certificate
                .map_err(|error| error.to_string())
                .and_then(|certificate| roots.add(certificate).map_err(|e| e.to_string()));
            if let Err(problem) = added {
                return Err(Error::Trust(problem));
            }
        }
        if roots.is_empty() {
            problems.push("there are no root certificates on this machine".into());
            return Err(Error::Trust(problems.join("; ")));
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Trust(error.to_string()))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// A connection, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to a checked address of the URL's host. `tls` is there for https.
pub(super) async fn connect(
    url: &Url,
    addresses: &Addresses,
    resolver: &dyn Resolve,
    tls: Option<TlsConnector>,
) -> Result<Box<dyn Stream>, Error> {
    let name = url.host_str().unwrap_or_default().to_owned();
    let found = resolve(url, resolver).await?;
    // One that may not be reached spoils the others: a name with both kinds is no accident.
    if let Some(refused) = found.iter().find(|at| !addresses.permits(&name, **at)) {
        return Err(Error::Refused {
            host: name,
            address: refused.ip(),
        });
    }
    let stream = first(&name, &found).await?;
    let Some(tls) = tls else {
        return Ok(Box::new(stream));
    };
    let server = match url.host() {
        Some(Host::Ipv4(address)) => ServerName::from(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => ServerName::from(IpAddr::V6(address)),
        Some(Host::Domain(_)) | None => ServerName::try_from(name.trim_end_matches('.').to_owned())
            .map_err(|error| Error::Url(format!("`{name}` is no host: {error}")))?,
    };
    match tls.connect(server, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(source) => Err(Error::Connect { host: name, source }),
    }
}

async fn resolve(url: &Url, resolver: &dyn Resolve) -> Result<Vec<SocketAddr>, Error> {
    let port = url.port_or_known_default().unwrap_or_default();
    let name = match url.host() {
        Some(Host::Ipv4(address)) => return Ok(vec![SocketAddr::from((address, port))]),
        Some(Host::Ipv6(address)) => return Ok(vec![SocketAddr::from((address, port))]),
        Some(Host::Domain(name)) => name,
        None => return Err(Error::Url("has no host".into())),
    };
    let found = resolver.resolve(name, port).await;
    let found = found.map_err(|source| Error::Connect {
        host: name.to_owned(),
        source,
    })?;
    if found.is_empty() {
        return Err(Error::Connect {
            host: name.to_owned(),
            source: io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        });
    }
    Ok(found)
}

/// The first address that answers.
async fn first(name: &str, addresses: &[SocketAddr]) -> Result<TcpStream, Error> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "it does not answer"),
        }
    }
    Err(Error::Connect {
        host: name.to_owned(),
        source: last,
    })
}
