#include <limits>

#include "base/check.h"
#include "rpc/convert.h"
#include "rpc/status.h"
#include "swarm/address.h"
#include "swarm/lease.h"

namespace meadow::rpc {
namespace {

// A payload moves into the message: protobuf keeps strings, so it is copied once.
void put(swarm::HiddenStates&& hidden, pb::HiddenStates* out) {
  out->set_first_position(hidden.first_position);
  out->set_count(hidden.count);
  out->set_values(hidden.bytes.data(), hidden.bytes.size());
}

template <class Message>
void put_neighbours(const PeerId& previous, const std::optional<swarm::NextHop>& next,
                    Message* out) {
  if (!previous.is_zero()) out->set_previous(wire_bytes(previous));
  if (!next) return;
  out->mutable_next()->mutable_server()->set_id(wire_bytes(next->server.id));
  out->mutable_next()->mutable_server()->set_address(next->server.address);
  out->mutable_next()->set_session(wire_bytes(next->session));
}

void put(const Error& error, pb::Error* out) {
  static_assert(static_cast<int>(Code::kInternal) + 1 == pb::CODE_INTERNAL);
  out->set_code(static_cast<pb::Code>(static_cast<int>(error.code) + 1));
  out->set_message(clean_text(error.message));
}

void put(swarm::OpenRequest&& m, pb::ClientMessage* out) {
  pb::OpenRequest* open = out->mutable_open();
  open->set_session(wire_bytes(m.session));
  open->set_epoch(m.epoch);
  open->mutable_blocks()->set_first(m.blocks.first);
  open->mutable_blocks()->set_last(m.blocks.last);
  open->set_max_tokens(m.max_tokens);
  open->set_codec(static_cast<pb::Codec>(m.codec));
  open->set_fingerprint(wire_bytes(m.fingerprint));
  open->set_numerics(m.numerics);
  put_neighbours(m.previous, m.next, open);
}
void put(swarm::StepRequest&& m, pb::ClientMessage* out) {
  pb::StepRequest* step = out->mutable_step();
  step->set_epoch(m.epoch);
  step->set_step(m.step);
  put(std::move(m.input), step->mutable_input());
  step->set_push(m.push);
  step->set_outputs_from(m.outputs_from);
}
void put(swarm::RouteUpdate&& m, pb::ClientMessage* out) {
  out->mutable_route()->set_epoch(m.epoch);
  put_neighbours(m.previous, m.next, out->mutable_route());
}
void put(swarm::OutputAck&& m, pb::ClientMessage* out) {
  out->mutable_ack()->set_position(m.position);
}
void put(swarm::ResendRequest&& m, pb::ClientMessage* out) {
  out->mutable_resend()->set_from(m.from);
}

void put(swarm::Opened&&, pb::ServerMessage* out) { out->mutable_opened(); }
void put(swarm::StepOutput&& m, pb::ServerMessage* out) {
  pb::StepOutput* output = out->mutable_output();
  output->set_epoch(m.epoch);
  output->set_step(m.step);
  put(std::move(m.output), output->mutable_output());
  output->set_position(m.position);
  output->set_compute_us(m.compute_us);
  output->set_wait_us(m.wait_us);
}
void put(swarm::Beat&& m, pb::ServerMessage* out) {
  out->mutable_beat()->set_epoch(m.epoch);
  out->mutable_beat()->set_step(m.step);
}
void put(swarm::PushFailed&& m, pb::ServerMessage* out) {
  out->mutable_push_failed()->set_epoch(m.epoch);
  out->mutable_push_failed()->set_step(m.step);
  put(m.error, out->mutable_push_failed()->mutable_error());
}
void put(swarm::StepRefused&& m, pb::ServerMessage* out) {
  out->mutable_refused()->set_epoch(m.epoch);
  out->mutable_refused()->set_step(m.step);
  put(m.error, out->mutable_refused()->mutable_error());
}

// ---- from the wire -----------------------------------------------------------------------------

Result<int64_t> position(int64_t value, std::string_view field) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (value < 0 || value > kMax)
    return fail(Code::kInvalidArgument, "{}: expected 0 to {}, got {}", field, kMax, value);
  return value;
}

Result<swarm::HiddenStates> hidden_from(const pb::HiddenStates& in, bool may_be_empty) {
  swarm::HiddenStates out;
  MEADOW_TRY(out.first_position, position(in.first_position(), "first_position"));
  MEADOW_TRY(out.count, position(in.count(), "count"));
  out.bytes.assign(in.values().begin(), in.values().end());
  if (out.count == 0 && out.bytes.empty() && may_be_empty) return out;
  MEADOW_TRY_VOID(swarm::check(out, swarm::kMaxStepBytes));
  const auto bytes = static_cast<int64_t>(out.bytes.size());
  if (bytes == 0 || bytes % out.count != 0)
    return fail(Code::kInvalidArgument, "values: expected a multiple of {} bytes, got {}",
                out.count, bytes);
  return out;
}

template <class Message>
Result<PeerId> previous_from(const Message& in) {
  if (in.previous().empty()) return PeerId{};
  return fixed<PeerId>(in.previous(), "previous");
}

template <class Message>
Result<std::optional<swarm::NextHop>> next_from(const Message& in) {
  if (!in.has_next()) return std::optional<swarm::NextHop>();
  swarm::NextHop next;
  MEADOW_TRY(next.server.id, fixed<PeerId>(in.next().server().id(), "next.server.id"));
  next.server.address = in.next().server().address();
  if (auto dialable = swarm::parse_dialable(next.server.address); !dialable)
    return fail(dialable.error().within("next.server.address"));
  MEADOW_TRY(next.session, fixed<SessionId>(in.next().session(), "next.session"));
  return std::optional(std::move(next));
}

Result<swarm::ClientMessage> open_from(const pb::OpenRequest& in) {
  swarm::OpenRequest out;
  MEADOW_TRY(out.session, fixed<SessionId>(in.session(), "session"));
  out.epoch = in.epoch();
  out.blocks = {in.blocks().first(), in.blocks().last()};
  if (out.blocks.first < 0 || out.blocks.empty() || out.blocks.last > swarm::kMaxBlocks)
    return fail(Code::kInvalidArgument, "blocks: expected 0 <= first < last <= {}, got {}:{}",
                swarm::kMaxBlocks, out.blocks.first, out.blocks.last);
  MEADOW_TRY(out.max_tokens, position(in.max_tokens(), "max_tokens"));
  if (in.codec() < pb::CODEC_F32 || in.codec() > pb::CODEC_Q8)
    return fail(Code::kUnsupported, "codec {}: not known here; known: f32 (1), f16 (2), q8 (3)",
                int{in.codec()});
  out.codec = static_cast<swarm::Codec>(in.codec());
  MEADOW_TRY(out.fingerprint, fixed<Digest>(in.fingerprint(), "fingerprint"));
  out.numerics = in.numerics();
  MEADOW_TRY(out.previous, previous_from(in));
  MEADOW_TRY(out.next, next_from(in));
  return out;
}

Result<swarm::ClientMessage> step_from(const pb::StepRequest& in) {
  swarm::StepRequest out;
  out.epoch = in.epoch();
  out.step = in.step();
  MEADOW_TRY(out.input, hidden_from(in.input(), false));
  out.push = in.push();
  MEADOW_TRY(out.outputs_from, position(in.outputs_from(), "outputs_from"));
  return out;
}

Result<swarm::ClientMessage> route_from(const pb::RouteUpdate& in) {
  swarm::RouteUpdate out;
  out.epoch = in.epoch();
  MEADOW_TRY(out.previous, previous_from(in));
  MEADOW_TRY(out.next, next_from(in));
  return out;
}

Result<Error> error_from(const pb::Error& in) {
  if (in.code() < pb::CODE_INVALID_ARGUMENT || in.code() > pb::CODE_INTERNAL)
    return fail(Code::kInvalidArgument, "error.code: {} is not known here", int{in.code()});
  return Error{static_cast<Code>(in.code() - 1), clean_text(in.message())};
}

Result<swarm::ServerMessage> output_from(const pb::StepOutput& in) {
  swarm::StepOutput out;
  out.epoch = in.epoch();
  out.step = in.step();
  MEADOW_TRY(out.output, hidden_from(in.output(), true));
  MEADOW_TRY(out.position, position(in.position(), "position"));
  out.compute_us = in.compute_us();
  out.wait_us = in.wait_us();
  return out;
}

}  // namespace

void to_proto(swarm::ClientMessage&& message, pb::ClientMessage* out) {
  std::visit([out](auto&& m) { put(std::move(m), out); }, std::move(message));
}

void to_proto(swarm::ServerMessage&& message, pb::ServerMessage* out) {
  std::visit([out](auto&& m) { put(std::move(m), out); }, std::move(message));
}

void to_proto(swarm::PushRequest&& message, pb::PushRequest* out) {
  out->set_session(wire_bytes(message.session));
  out->set_epoch(message.epoch);
  out->set_step(message.step);
  put(std::move(message.input), out->mutable_input());
  out->set_outputs_from(message.outputs_from);
}

Result<swarm::ClientMessage> from_proto(const pb::ClientMessage& in) {
  switch (in.kind_case()) {
    case pb::ClientMessage::kOpen:
      return open_from(in.open());
    case pb::ClientMessage::kStep:
      return step_from(in.step());
    case pb::ClientMessage::kRoute:
      return route_from(in.route());
    case pb::ClientMessage::kAck: {
      MEADOW_TRY(const int64_t at, position(in.ack().position(), "ack.position"));
      return swarm::OutputAck{at};
    }
    case pb::ClientMessage::kResend: {
      MEADOW_TRY(const int64_t from, position(in.resend().from(), "resend.from"));
      return swarm::ResendRequest{from};
    }
    case pb::ClientMessage::KIND_NOT_SET:
      break;
  }
  return fail(Code::kInvalidArgument, "a client's message of no kind known here");
}

Result<swarm::ServerMessage> from_proto(const pb::ServerMessage& in) {
  switch (in.kind_case()) {
    case pb::ServerMessage::kOpened:
      return swarm::Opened{};
    case pb::ServerMessage::kOutput:
      return output_from(in.output());
    case pb::ServerMessage::kBeat:
      return swarm::Beat{in.beat().epoch(), in.beat().step()};
    case pb::ServerMessage::kPushFailed: {
      MEADOW_TRY(Error error, error_from(in.push_failed().error()));
      return swarm::PushFailed{in.push_failed().epoch(), in.push_failed().step(), std::move(error)};
    }
    case pb::ServerMessage::kRefused: {
      MEADOW_TRY(Error error, error_from(in.refused().error()));
      return swarm::StepRefused{in.refused().epoch(), in.refused().step(), std::move(error)};
    }
    case pb::ServerMessage::KIND_NOT_SET:
      break;
  }
  return fail(Code::kInvalidArgument, "a server's message of no kind known here");
}

Result<swarm::PushRequest> from_proto(const pb::PushRequest& in) {
  swarm::PushRequest out;
  MEADOW_TRY(out.session, fixed<SessionId>(in.session(), "session"));
  out.epoch = in.epoch();
  out.step = in.step();
  MEADOW_TRY(out.input, hidden_from(in.input(), false));
  MEADOW_TRY(out.outputs_from, position(in.outputs_from(), "outputs_from"));
  return out;
}

}  // namespace meadow::rpc
