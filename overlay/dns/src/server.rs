//! DNS (RFC 1035, RFC 2308), with the client's network from EDNS Client Subnet (RFC 7871).

use std::collections::BTreeSet;
use std::net::IpAddr;

use async_trait::async_trait;
use hickory_server::authority::{MessageRequest, MessageResponseBuilder};
use hickory_server::proto::op::{Edns, Header, OpCode, ResponseCode};
use hickory_server::proto::rr::rdata::opt::{ClientSubnet, EdnsCode, EdnsOption};
use hickory_server::proto::rr::rdata::{A, AAAA, NS, SOA};
use hickory_server::proto::rr::{DNSClass, LowerName, Name as Domain, RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use overlay_control::name::Name;
use tokio::sync::watch;
use tracing::warn;

use crate::answer::choose;
use crate::settings::Settings;

/// The largest datagram that is not fragmented anywhere (DNS flag day 2020).
const DATAGRAM: u16 = 1232;

/// Answers by `settings` and by the live nodes.
pub struct Answers {
    settings: watch::Receiver<Settings>,
    alive: watch::Receiver<Option<BTreeSet<Name>>>,
}

struct Answer {
    code: ResponseCode,
    records: Vec<Record>,
    /// Without records: how long that may be cached.
    authority: Option<Record>,
    /// With the scope of the answer.
    subnet: Option<ClientSubnet>,
}

impl Answer {
    fn refused(code: ResponseCode) -> Self {
        Self {
            code,
            records: Vec::new(),
            authority: None,
            subnet: None,
        }
    }
}

impl Answers {
    pub fn new(settings: watch::Receiver<Settings>, alive: watch::Receiver<Option<BTreeSet<Name>>>) -> Self {
        Self { settings, alive }
    }

    fn answer(&self, request: &Request) -> Answer {
        if request.op_code() != OpCode::Query {
            return Answer::refused(ResponseCode::NotImp);
        }
        let Ok(info) = request.request_info() else {
            return Answer::refused(ResponseCode::FormErr);
        };
        let settings = self.settings.borrow();
        let zone = LowerName::from(&settings.zone);
        if info.query.query_class() != DNSClass::IN || !zone.zone_of(info.query.name()) {
            return Answer::refused(ResponseCode::Refused);
        }
        let name = Domain::from(info.query.name());
        let subnet = subnet(request);
        let client = subnet.map_or(info.src.ip().to_canonical(), |subnet| subnet.addr());
        self.of(&settings, &name, info.query.query_type(), client, subnet)
    }

    fn of(
        &self,
        settings: &Settings,
        name: &Domain,
        kind: RecordType,
        client: IpAddr,
        subnet: Option<ClientSubnet>,
    ) -> Answer {
        let record = |name: &Domain, data| Record::from_rdata(name.clone(), settings.ttl, data);
        let is_zone = *name == settings.zone;
        let (mut records, mut scope) = (Vec::new(), 0);
        if is_zone && matches!(kind, RecordType::SOA | RecordType::ANY) {
            records.push(record(name, RData::SOA(soa(settings))));
        }
        if is_zone && matches!(kind, RecordType::NS | RecordType::ANY) {
            records.push(record(name, RData::NS(NS(settings.server.clone()))));
        }
        if settings.names.contains(name) {
            let alive = self.alive.borrow();
            let chosen = choose(&settings.ingresses, client, alive.as_ref());
            scope = chosen.scope;
            let data = chosen.ingress.addresses.iter().map(|address| match *address {
                IpAddr::V4(address) => RData::A(A(address)),
                IpAddr::V6(address) => RData::AAAA(AAAA(address)),
            });
            let asked = data.filter(|data| [data.record_type(), RecordType::ANY].contains(&kind));
            records.extend(asked.map(|data| record(name, data)));
        }
        let authority = records
            .is_empty()
            .then(|| record(&settings.zone, RData::SOA(soa(settings))));
        Answer {
            // A name exists if names below it do (RFC 8020 section 2); so does the zone's own.
            code: if settings.names.iter().any(|each| name.zone_of(each)) {
                ResponseCode::NoError
            } else {
                ResponseCode::NXDomain
            },
            records,
            authority,
            subnet: subnet.map(|subnet| ClientSubnet::new(subnet.addr(), subnet.source_prefix(), scope)),
        }
    }
}

/// No secondary copies the zone, so only the last number matters: how long the absence of a record may be cached (RFC 2308
/// section 4).
fn soa(settings: &Settings) -> SOA {
    let ttl = i32::try_from(settings.ttl).unwrap_or(i32::MAX);
    SOA::new(
        settings.server.clone(),
        settings.zone.clone(),
        1,
        ttl,
        ttl,
        ttl,
        settings.ttl,
    )
}

/// The client's network, if the resolver sends and does not hide it.
fn subnet(request: &MessageRequest) -> Option<ClientSubnet> {
    match request.edns()?.option(EdnsCode::Subnet)? {
        EdnsOption::Subnet(subnet) if subnet.source_prefix() > 0 => Some(*subnet),
        _ => None,
    }
}

#[async_trait]
impl RequestHandler for Answers {
    async fn handle_request<R: ResponseHandler>(&self, request: &Request, mut responses: R) -> ResponseInfo {
        let answer = self.answer(request);
        let mut header = Header::response_from_request(request.header());
        header.set_response_code(answer.code);
        header.set_authoritative(answer.code != ResponseCode::Refused);
        let mut builder = MessageResponseBuilder::from_message_request(request);
        if request.edns().is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(DATAGRAM).set_version(0);
            if let Some(subnet) = answer.subnet {
                edns.options_mut().insert(EdnsOption::Subnet(subnet));
            }
            builder.edns(edns);
        }
        let response = builder.build(header, &answer.records, &[], &answer.authority, &[]);
        match responses.send_response(response).await {
            Ok(info) => info,
            Err(error) => {
                warn!("{}: no answer can be sent: {error}", request.src());
                header.set_response_code(ResponseCode::ServFail);
                header.into()
            }
        }
    }
}
