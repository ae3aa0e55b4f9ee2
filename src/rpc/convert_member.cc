#include "rpc/convert.h"
#include "swarm/address.h"

namespace meadow::rpc {
namespace {

// Leases of one message; the sender keeps what is over for the next exchange.
constexpr size_t kMaxNewsBytes = static_cast<size_t>(swarm::kMaxStepBytes);

template <class Message>
void put_news(const std::vector<swarm::LeaseEntry>& news, Message* out) {
  size_t bytes = 0;
  for (const swarm::LeaseEntry& entry : news) {
    bytes += entry.lease.body.size() + 128;  // with signature and framing
    if (bytes > kMaxNewsBytes || out->news_size() == int{swarm::kMaxLeasesPerExchange}) return;
    pb::LeaseEntry* item = out->add_news();
    item->set_body(entry.lease.body.data(), entry.lease.body.size());
    item->set_signature(wire_bytes(entry.lease.signature));
    item->set_age_ms(entry.age_ms);
  }
}

template <class Message>
void put_addresses(const std::vector<std::string>& addresses, Message* out) {
  for (const std::string& address : addresses) {
    if (out->addresses_size() == int{swarm::kMaxIntroductions}) return;
    out->add_addresses(address);
  }
}

Result<void> at_most(int count, size_t limit, std::string_view field) {
  if (static_cast<size_t>(count) <= limit) return {};
  return fail(Code::kInvalidArgument, "{}: expected at most {} entries, got {}", field, limit,
              count);
}

template <class Message>
Result<std::vector<swarm::LeaseEntry>> news_from(const Message& in) {
  MEADOW_TRY_VOID(at_most(in.news_size(), swarm::kMaxLeasesPerExchange, "news"));
  std::vector<swarm::LeaseEntry> out;
  for (const pb::LeaseEntry& item : in.news()) {
    if (item.body().size() > swarm::kMaxLeaseBytes)
      return fail(Code::kInvalidArgument, "news.body: expected at most {} bytes, got {}",
                  swarm::kMaxLeaseBytes, item.body().size());
    swarm::LeaseEntry entry;
    entry.lease.body.assign(item.body().begin(), item.body().end());
    MEADOW_TRY(entry.lease.signature, fixed<Signature>(item.signature(), "news.signature"));
    entry.age_ms = item.age_ms();
    out.push_back(std::move(entry));
  }
  return out;
}

// "" where the peer is not to be dialled.
Result<std::string> own_address_from(const std::string& address) {
  if (address.empty()) return address;
  if (auto dialable = swarm::parse_dialable(address); !dialable)
    return fail(dialable.error().within("address"));
  return address;
}

template <class Message>
Result<std::vector<std::string>> addresses_from(const Message& in) {
  MEADOW_TRY_VOID(at_most(in.addresses_size(), swarm::kMaxIntroductions, "addresses"));
  std::vector<std::string> out;
  for (const std::string& address : in.addresses()) {
    if (auto dialable = swarm::parse_dialable(address); !dialable)
      return fail(dialable.error().within("addresses"));
    out.push_back(address);
  }
  return out;
}

}  // namespace

void to_proto(const swarm::ExchangeRequest& message, pb::ExchangeRequest* out) {
  for (const swarm::LeaseVersion& version : message.known) {
    if (out->known_size() == int{kMaxKnownPerExchange}) break;
    pb::LeaseVersion* item = out->add_known();
    item->set_peer(wire_bytes(version.peer));
    item->set_sequence(version.sequence);
  }
  put_news(message.news, out);
  out->set_address(message.address);
}

void to_proto(const swarm::ExchangeReply& message, pb::ExchangeReply* out) {
  put_news(message.news, out);
  for (const PeerId& peer : message.wanted) {
    if (out->wanted_size() == int{kMaxKnownPerExchange}) break;
    out->add_wanted(wire_bytes(peer));
  }
  put_addresses(message.addresses, out);
}

void to_proto(const swarm::IntroduceRequest& message, pb::IntroduceRequest* out) {
  out->set_rendezvous(wire_bytes(message.rendezvous));
  out->set_address(message.address);
}

void to_proto(const swarm::IntroduceReply& message, pb::IntroduceReply* out) {
  put_addresses(message.addresses, out);
}

Result<swarm::ExchangeRequest> from_proto(const pb::ExchangeRequest& in) {
  swarm::ExchangeRequest out;
  MEADOW_TRY_VOID(at_most(in.known_size(), kMaxKnownPerExchange, "known"));
  for (const pb::LeaseVersion& item : in.known()) {
    MEADOW_TRY(const PeerId peer, fixed<PeerId>(item.peer(), "known.peer"));
    out.known.push_back({peer, item.sequence()});
  }
  MEADOW_TRY(out.news, news_from(in));
  MEADOW_TRY(out.address, own_address_from(in.address()));
  return out;
}

Result<swarm::ExchangeReply> from_proto(const pb::ExchangeReply& in) {
  swarm::ExchangeReply out;
  MEADOW_TRY(out.news, news_from(in));
  MEADOW_TRY_VOID(at_most(in.wanted_size(), kMaxKnownPerExchange, "wanted"));
  for (const std::string& peer : in.wanted()) {
    MEADOW_TRY(const PeerId id, fixed<PeerId>(peer, "wanted"));
    out.wanted.push_back(id);
  }
  MEADOW_TRY(out.addresses, addresses_from(in));
  return out;
}

Result<swarm::IntroduceRequest> from_proto(const pb::IntroduceRequest& in) {
  swarm::IntroduceRequest out;
  MEADOW_TRY(out.rendezvous, fixed<Digest>(in.rendezvous(), "rendezvous"));
  MEADOW_TRY(out.address, own_address_from(in.address()));
  return out;
}

Result<swarm::IntroduceReply> from_proto(const pb::IntroduceReply& in) {
  swarm::IntroduceReply out;
  MEADOW_TRY(out.addresses, addresses_from(in));
  return out;
}

}  // namespace meadow::rpc
