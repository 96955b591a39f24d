//! Which addresses agents may reach: public ones. Checked after names were resolved, on the very address that is then
//! connected to, at every step of a redirect (P19).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What may be reached besides public addresses. Nothing, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Hosts that may be in a private network, such as that of the owner's own registry. Addresses at which clouds hand
    /// out credentials are refused for them too.
    pub allowed_hosts: Vec<String>,
    /// Exactly these, whatever they are.
    pub allowed: Vec<SocketAddr>,
}

impl Addresses {
    /// Whether `host` may be reached at this address.
    pub fn permits(&self, host: &str, address: SocketAddr) -> bool {
        let plain = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
        let named = || {
            self.allowed_hosts
                .iter()
                .any(|allowed| plain(allowed) == plain(host))
        };
        self.allowed.contains(&address)
            || is_public(address.ip())
            || (!hands_out_credentials(address.ip()) && named())
    }
}

/// A network: its first address and how many bits are its own.
type V4 = (Ipv4Addr, u32);
type V6 = (Ipv6Addr, u32);

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32) -> V4 {
    (Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(a: u16, b: u16, bits: u32) -> V6 {
    (Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), bits)
}

/// Networks of IPv4 that are not the public one, by IANA's registry of special purposes.
const NOT_PUBLIC: [V4; 16] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
    // A public number that inside Azure is the machine's own host.
    v4(168, 63, 129, 16, 32),
];

/// All of IPv6 that is public is in here, …
const PUBLIC_V6: V6 = v6(0x2000, 0, 3);

/// … but for these: protocols that carry IPv4 inside (Teredo, 6to4) and the IETF's own, documentation. Mapped IPv4 and
/// NAT64 are outside.
const NOT_PUBLIC_V6: [V6; 4] = [
    v6(0x2001, 0, 23),
    v6(0x2001, 0xdb8, 32),
    v6(0x2002, 0, 16),
    v6(0x3fff, 0, 20),
];

/// Whether an address is of the public network.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC.iter().any(|net| inside4(address, *net)),
        IpAddr::V6(address) => {
            inside6(address, PUBLIC_V6) && !NOT_PUBLIC_V6.iter().any(|net| inside6(address, *net))
        }
    }
}

/// Where clouds tell a machine its credentials. Never reached.
fn hands_out_credentials(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            const NETS: [V4; 4] = [
                v4(169, 254, 0, 0, 16),
                v4(100, 100, 100, 200, 32),
                v4(168, 63, 129, 16, 32),
                v4(192, 0, 0, 192, 32),
            ];
            NETS.iter().any(|net| inside4(address, *net))
        }
        IpAddr::V6(address) => {
            let embedded = address.to_ipv4_mapped().or_else(|| nat64(address));
            let aws = v6(0xfd00, 0xec2, 32);
            embedded.is_some_and(|v4| hands_out_credentials(v4.into()))
                || inside6(address, aws)
                || address.is_unicast_link_local()
        }
    }
}

/// The IPv4 address in one that is translated on the way.
fn nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, .., high, low] = address.segments();
    (a == 0x64 && b == 0xff9b).then(|| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
}

fn inside4(address: Ipv4Addr, (net, bits): V4) -> bool {
    let shift = 32 - bits;
    (u64::from(address.to_bits()) >> shift) == (u64::from(net.to_bits()) >> shift)
}

fn inside6(address: Ipv6Addr, (net, bits): V6) -> bool {
    let shift = 128 - bits;
    (address.to_bits() >> shift) == (net.to_bits() >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p19_only_public_addresses_are_public() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "2001:200::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:1.1.1.1",
            "::1.1.1.1",
            "64:ff9b::1.1.1.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn p19_an_allowed_host_may_be_private_but_hands_out_no_credentials() {
        let addresses = Addresses {
            allowed_hosts: vec!["Registry.corp".into()],
            allowed: vec!["127.0.0.1:8080".parse().unwrap()],
        };
        let check = |host: &str, address: &str, expect: bool| {
            let got = addresses.permits(host, address.parse().unwrap());
            assert_eq!(got, expect, "{host} {address}");
        };
        check("registry.corp", "10.0.0.1:443", true);
        check("registry.corp.", "[fd00::1]:443", true);
        check("registry.corp", "169.254.169.254:80", false);
        check("registry.corp", "[::ffff:169.254.169.254]:80", false);
        check("registry.corp", "[64:ff9b::a9fe:a9fe]:80", false);
        check("registry.corp", "[fd00:ec2::254]:80", false);
        check("registry.corp", "[fe80::1]:80", false);
        check("registry.corp", "100.100.100.200:80", false);
        check("other.corp", "10.0.0.1:443", false);
        check("x.registry.corp", "10.0.0.1:443", false);
        check("other", "127.0.0.1:8080", true);
        check("other", "127.0.0.1:8081", false);
        check("other", "1.1.1.1:1", true);
    }
}
