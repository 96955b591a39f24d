//! Against a server on this machine that says exactly what it is told to, and names that lead where a test wants.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, mpsc};

use super::*;

/// Answers each request by its path, and remembers them.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(vec![]));
        let heard = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = vec![];
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                heard.lock().unwrap().push(head);
                // Who asks may have heard enough.
                drop(stream.write_all(&answer(&path)));
            }
        });
        Self { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn page(head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{head}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// Each look-up takes the next answer; the last one stays.
#[derive(Debug, Default)]
struct Names {
    answers: Mutex<VecDeque<Vec<SocketAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn of(answers: impl IntoIterator<Item = Vec<SocketAddr>>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
        })
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolving<'a> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.pop_front()
        } else {
            answers.front().cloned()
        };
        let answer = answer.ok_or_else(|| std::io::Error::other("no such name"));
        Box::pin(async move { answer })
    }
}

fn options(allowed: &[&Server], limits: Limits) -> Options {
    Options {
        addresses: Addresses {
            allowed: allowed.iter().map(|server| server.address).collect(),
            ..Addresses::default()
        },
        resolver: Names::of([]),
        limits,
        ..Options::default()
    }
}

fn get(url: &str) -> Fetch {
    Fetch {
        url: url.into(),
        method: Method::Get,
    }
}

async fn fetch(options: Options, url: &str) -> Result<Fetched, String> {
    let fetched = Client::new(options).fetch(&get(url)).await;
    fetched.map_err(|error| error.to_string())
}

async fn from(server: &Server, path: &str) -> Result<Fetched, String> {
    fetch(options(&[server], Limits::default()), &server.url(path)).await
}

#[test]
fn a_fetch_can_move_between_threads() {
    fn send<T: Send>(_: &T) {}
    let client = Client::new(Options::default());
    let request = get("http://x/");
    send(&client.fetch(&request));
}

#[tokio::test]
async fn a10_a_page_comes_as_text_and_other_things_as_base64() {
    let server = Server::start(|path| {
        match path {
        "/json?a=b" => page("Content-Type: application/json\r\n", b"{\"a\":1}"),
        "/bytes" => page("Content-Type: image/png\r\n", &[0x89, 0xff, 0]),
        "/chunks" => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n".to_vec(),
        "/old" => b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil it closes".to_vec(),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".to_vec(),
    }
    });
    let json = from(&server, "/json?a=b#part").await.unwrap();
    assert_eq!(
        json.to_value(),
        json!({
            "status": 200, "url": server.url("/json?a=b"), "content_type": "application/json",
            "text": "{\"a\":1}", "truncated": false,
        })
    );
    let bytes = from(&server, "/bytes").await.unwrap();
    assert_eq!(
        bytes.to_value(),
        json!({
            "status": 200, "url": server.url("/bytes"), "content_type": "image/png",
            "base64": "if8A", "truncated": false,
        })
    );
    let text = |fetched: Fetched| match fetched.content {
        Content::Text(text) => text,
        Content::Bytes(bytes) => panic!("{bytes:?}"),
    };
    assert_eq!(text(from(&server, "/chunks").await.unwrap()), "abc");
    assert_eq!(
        text(from(&server, "/old").await.unwrap()),
        "until it closes"
    );
    let missing = from(&server, "/none").await.unwrap();
    assert_eq!((missing.status, text(missing)), (404, "no".into()));
}

#[tokio::test]
async fn nothing_of_anyones_is_sent() {
    let server = Server::start(|_| page("Set-Cookie: a=b\r\n", b""));
    let client = Client::new(options(&[&server], Limits::default()));
    for _ in 0..2 {
        client.fetch(&get(&server.url("/x"))).await.unwrap();
    }
    let version = env!("CARGO_PKG_VERSION");
    let host = server.address;
    let expect = format!(
        "GET /x HTTP/1.1\r\nhost: {host}\r\nuser-agent: wharfinger/{version}\r\naccept: */*\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(*server.asked.lock().unwrap(), [expect.clone(), expect]);
}

#[tokio::test]
async fn a_head_asks_for_no_content() {
    let server = Server::start(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\nContent-Encoding: gzip\r\n\r\n".to_vec()
    });
    let client = Client::new(options(&[&server], Limits::default()));
    let head = Fetch {
        method: Method::Head,
        ..get(&server.url("/"))
    };
    let fetched = client.fetch(&head).await.unwrap();
    assert_eq!(fetched.content, Content::Text(String::new()));
    assert!(server.asked.lock().unwrap()[0].starts_with("HEAD / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn p19_addresses_that_are_not_public_are_refused_in_every_spelling() {
    let server = Server::start(|_| page("", b"secret"));
    let port = server.address.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "１２７.0.0.1",
        "①②⑦.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "10.0.0.1",
        "[fe80::1]",
    ] {
        let got = fetch(Options::default(), &format!("http://{host}:{port}/")).await;
        let error = got.unwrap_err();
        assert!(error.contains("not a public address"), "{host}: {error}");
    }
    for host in ["localhost", "LOCALHOST"] {
        let got = fetch(Options::default(), &format!("http://{host}:{port}/")).await;
        let error = got.unwrap_err();
        let leads = "not a public address, and the name leads there";
        assert!(error.contains(leads), "{host}: {error}");
    }
    // Not every machine knows this name.
    let got = fetch(Options::default(), &format!("http://localhost.:{port}/")).await;
    assert!(got.is_err());
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn p19_a_name_with_one_private_address_is_refused() {
    let server = Server::start(|_| page("", b"x"));
    let mut options = options(&[&server], Limits::default());
    options.resolver = Names::of([vec![server.address, "10.0.0.1:80".parse().unwrap()]]);
    assert_eq!(
        fetch(options, "http://both.example/").await.unwrap_err(),
        "`both.example` may not be fetched: 10.0.0.1 is not a public address, and the name leads there"
    );
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn p19_a_name_that_changes_its_mind_is_connected_to_where_it_was_checked() {
    let public = Server::start(|path| match path {
        "/again" => redirect("/secret"),
        _ => page("Content-Type: text/plain\r\n", b"public"),
    });
    let private = Server::start(|_| page("Content-Type: text/plain\r\n", b"private"));
    let names = || Names::of([vec![public.address], vec![private.address]]);
    let resolver = names();
    let mut one = options(&[&public], Limits::default());
    one.resolver = resolver.clone();
    let fetched = fetch(one, "http://rebinding.example/").await.unwrap();
    assert_eq!(fetched.content, Content::Text("public".into()));
    assert_eq!(resolver.asked.lock().unwrap().len(), 1, "looked up once");
    // A redirect is a request of its own, and looked up and checked anew.
    let mut again = options(&[&public], Limits::default());
    again.resolver = names();
    let error = fetch(again, "http://rebinding.example/again")
        .await
        .unwrap_err();
    assert!(
        error.contains("127.0.0.1 is not a public address"),
        "{error}"
    );
    assert_eq!((public.count(), private.count()), (2, 0));
}

#[tokio::test]
async fn p19_the_registrys_host_may_be_private() {
    let server = Server::start(|_| page("Content-Type: text/plain\r\n", b"registry"));
    let mut options = options(&[], Limits::default());
    options.resolver = Names::of([vec![server.address]]);
    options.addresses.allowed_hosts = vec!["registry.corp".into()];
    let got = fetch(options.clone(), "http://Registry.corp./x")
        .await
        .unwrap();
    assert_eq!(got.content, Content::Text("registry".into()));
    assert!(fetch(options, "http://other.corp/x").await.is_err());
}

#[tokio::test]
async fn p19_every_redirect_is_checked() {
    let server = Server::start(|path| match path {
        "/a" => redirect("b?c=d"),
        "/b?c=d" => page("Content-Type: text/plain\r\n", b"b"),
        "/private" => redirect("http://10.0.0.1/"),
        "/metadata" => redirect("http://169.254.169.254/latest/meta-data/"),
        "/relative" => redirect("//[::1]/"),
        "/file" => redirect("file:///etc/passwd"),
        "/user" => redirect("http://user:pass@example.com/"),
        "/broken" => redirect("http://[/"),
        _ => b"HTTP/1.1 302 Found\r\nContent-Length: 4\r\n\r\nhere".to_vec(),
    });
    let b = from(&server, "/a").await.unwrap();
    assert_eq!((b.status, b.url), (200, server.url("/b?c=d")));
    for path in ["/private", "/metadata", "/relative"] {
        let error = from(&server, path).await.unwrap_err();
        assert!(error.contains("is not a public address"), "{path}: {error}");
    }
    let url = |path: &str| server.url(path);
    assert_eq!(
        from(&server, "/file").await.unwrap_err(),
        format!(
            "a redirect of `{}` was not followed: the address it leads to must be http or https, not `file`",
            url("/file")
        )
    );
    assert_eq!(
        from(&server, "/user").await.unwrap_err(),
        format!(
            "a redirect of `{}` was not followed: the address it leads to may not hold a user or password; none is sent",
            url("/user")
        )
    );
    assert!(
        from(&server, "/broken")
            .await
            .unwrap_err()
            .contains("cannot be read")
    );
    let nowhere = from(&server, "/nowhere").await.unwrap();
    assert_eq!(
        (nowhere.status, nowhere.content),
        (302, Content::Text("here".into()))
    );
    let secure = Url::parse("https://x.example/").unwrap();
    assert_eq!(
        next(&secure, "http://x.example/").unwrap_err(),
        "it leads from https to http"
    );
    assert_eq!(
        next(&secure, "/y#z").unwrap().as_str(),
        "https://x.example/y"
    );
}

#[tokio::test]
async fn redirects_end_after_five() {
    let server = Server::start(|path| match path.trim_start_matches('/').parse::<u32>() {
        Ok(0) => page("", b"end"),
        Ok(more) => redirect(&format!("/{}", more - 1)),
        Err(_) => redirect(path),
    });
    assert!(from(&server, "/5").await.is_ok());
    let before = server.count();
    assert_eq!(
        from(&server, "/loop").await.unwrap_err(),
        format!(
            "`{}` was not fetched: more than 5 redirects",
            server.url("/loop")
        )
    );
    assert_eq!(server.count() - before, 6);
    assert!(from(&server, "/6").await.is_err());
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn too_much_is_an_error_that_names_the_limit() {
    let server = Server::start(|path| match path {
        "/announced" => b"HTTP/1.1 200 OK\r\nContent-Length: 26214401\r\n\r\n".to_vec(),
        "/endless" => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            [
                &head[..],
                b"400\r\n",
                &[b'x'; 1024],
                b"\r\n",
                b"400\r\n",
                &[b'x'; 1024],
            ]
            .concat()
        }
        "/bomb" => page("Content-Encoding: gzip\r\n", &packed(&vec![0; 4_000_000])),
        "/fits" => page(
            "Content-Encoding: gzip\r\nContent-Type: text/plain\r\n",
            &packed(&[b'x'; 1500]),
        ),
        "/twice" => page("Content-Encoding: gzip, gzip\r\n", &packed(&packed(b"x"))),
        "/broken" => page("Content-Encoding: gzip\r\n", b"not gzip at all, is it"),
        "/cut" => page("Content-Encoding: gzip\r\n", &packed(&[b'x'; 1500])[..20]),
        "/brotli" => page("Content-Encoding: br\r\n", b"x"),
        "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_vec(),
        "/headers" => page(&"X-A: b\r\n".repeat(200), b""),
        "/long" => page(&format!("X-A: {}\r\n", "b".repeat(100_000)), b""),
        _ => b"SSH-2.0-OpenSSH\r\n".to_vec(),
    });
    let small = Limits {
        bytes: 1500,
        ..Limits::default()
    };
    let check = async |limits: Limits, path: &str, expect: &str| {
        let got = fetch(options(&[&server], limits), &server.url(path)).await;
        let error = got.unwrap_err();
        assert!(error.contains(expect), "{path}: {error}");
    };
    let all = "the content is longer than 26214400 bytes, the most that is fetched";
    check(Limits::default(), "/announced", all).await;
    let few = "the content is longer than 1500 bytes, the most that is fetched";
    check(small, "/endless", few).await;
    check(small, "/bomb", few).await;
    check(small, "/twice", "packed with `gzip, gzip`").await;
    check(small, "/broken", "could not be unpacked").await;
    check(small, "/cut", "could not be unpacked").await;
    check(
        small,
        "/brotli",
        "packed with `br`, which was not asked for",
    )
    .await;
    check(small, "/short", "cannot be read").await;
    check(small, "/headers", "cannot be read").await;
    check(small, "/long", "cannot be read").await;
    check(small, "/ssh", "cannot be read").await;
    let got = fetch(options(&[&server], small), &server.url("/fits"))
        .await
        .unwrap();
    assert_eq!(got.content, Content::Text("x".repeat(1500)));
}

#[tokio::test]
async fn a_server_that_never_ends_is_waited_for_a_minute() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (began, begun) = tokio::sync::oneshot::channel();
    let (done, wait) = mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let read = stream.read(&mut head).unwrap();
        assert!(read > 0);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
            .unwrap();
        began.send(()).unwrap();
        // Until the test is over.
        wait.recv().unwrap_err();
    });
    let mut options = options(&[], Limits::default());
    options.addresses.allowed = vec![address];
    let client = Client::new(options);
    let request = get(&format!("http://{address}/"));
    let fetching = client.fetch(&request);
    tokio::pin!(fetching);
    tokio::select! {
        early = &mut fetching => panic!("{early:?}"),
        begun = begun => begun.unwrap(),
    }
    // From here on time passes when nothing else happens.
    tokio::time::pause();
    assert_eq!(
        fetching.await.unwrap_err().to_string(),
        "nothing was fetched in 60 s, the most that is waited"
    );
    drop(done);
    server.join().unwrap();
}

#[tokio::test]
async fn what_is_no_web_address_is_refused() {
    let check = async |url: &str, expect: &str| {
        let options = options(&[], Limits::default());
        assert_eq!(fetch(options, url).await.unwrap_err(), expect, "{url}");
    };
    check(
        "file:///etc/passwd",
        "the URL must be http or https, not `file`",
    )
    .await;
    check(
        "ftp://x.example/",
        "the URL must be http or https, not `ftp`",
    )
    .await;
    check(
        "data:text/plain,x",
        "the URL must be http or https, not `data`",
    )
    .await;
    check(
        "x.example/path",
        "the URL cannot be read: relative URL without a base",
    )
    .await;
    check("http://", "the URL cannot be read: empty host").await;
    check(
        "http://1.2.3.4.5/",
        "the URL cannot be read: invalid IPv4 address",
    )
    .await;
    let user = "the URL may not hold a user or password; none is sent";
    check("http://u@x.example/", user).await;
    check("https://u:p@x.example/", user).await;
    check("https://:p@x.example/", user).await;
    check(
        "http://none.example/",
        "`none.example` cannot be reached: no such name",
    )
    .await;
}

mod tls {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::{ServerConfig, crypto};

    /// Answers one request under a certificate for `x.example`, and asks what came of it.
    async fn check(host: &str, trusted: bool) -> Result<Fetched, String> {
        let made = rcgen::generate_simple_self_signed(["x.example".to_owned()]).unwrap();
        let pem = made.cert.pem().into_bytes();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config =
            ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key)
                .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let mut head = [0; 1024];
            drop(stream.read(&mut head).await);
            drop(
                stream
                    .write_all(&page("Content-Type: text/plain\r\n", b"sealed"))
                    .await,
            );
            drop(stream.shutdown().await);
        };
        let other = rcgen::generate_simple_self_signed(["x.example".to_owned()]).unwrap();
        let options = Options {
            addresses: Addresses {
                allowed: vec![address],
                ..Addresses::default()
            },
            resolver: Names::of([vec![address]]),
            trust: Trust {
                system: false,
                pem: if trusted {
                    pem
                } else {
                    other.cert.pem().into_bytes()
                },
            },
            limits: Limits::default(),
        };
        let url = format!("https://{host}:{}/", address.port());
        tokio::join!(serve, fetch(options, &url)).1
    }

    #[tokio::test]
    async fn a_certificate_is_believed_by_the_given_roots_alone() {
        let fetched = check("x.example", true).await.unwrap();
        assert_eq!(fetched.content, Content::Text("sealed".into()));
        let fetched = check("x.example.", true).await.unwrap();
        assert_eq!(fetched.status, 200);
        let error = check("x.example", false).await.unwrap_err();
        assert!(error.contains("`x.example` cannot be reached: "), "{error}");
        assert!(error.contains("certificate"), "{error}");
        let error = check("y.example", true).await.unwrap_err();
        assert!(error.contains("not valid for name"), "{error}");
    }

    #[tokio::test]
    async fn without_roots_nothing_is_believed() {
        let check = async |pem: &str| {
            let options = Options {
                addresses: Addresses {
                    allowed: vec!["127.0.0.1:1".parse().unwrap()],
                    ..Addresses::default()
                },
                trust: Trust {
                    system: false,
                    pem: pem.into(),
                },
                ..Options::default()
            };
            fetch(options, "https://127.0.0.1:1/").await.unwrap_err()
        };
        assert_eq!(
            check("").await,
            "certificates cannot be checked: there are no root certificates on this machine"
        );
        let broken = "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
        assert!(
            check(broken)
                .await
                .starts_with("certificates cannot be checked: ")
        );
    }
}
