// All of UCX is in this file: its header is included nowhere else, as builds without it have none.

#include "rpc/ucx_carrier.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <optional>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <ucp/api/ucp.h>

#include "base/mutex.h"
#include "base/random.h"
#include "base/thread_name.h"
#include "rpc/unix_socket.h"

namespace coxswain::rpc {
namespace {

// A source that failed is left alone for so long, as pairs of shards are (fleet_transport.h).
constexpr std::chrono::seconds kSourcePause{10};
// Machines of a fleet; one more is not accepted.
constexpr std::size_t kPeersMax = 64;
// In which UCX may end what is under way when a carrier ends.
constexpr std::chrono::seconds kCloseTimeMax{1};

// What this file calls of the library.
// clang-format off
#define COXSWAIN_UCX_FUNCTIONS(X) \
  X(ucp_am_recv_data_nbx) X(ucp_am_send_nbx) X(ucp_cleanup) X(ucp_config_modify) X(ucp_config_read) \
  X(ucp_config_release) X(ucp_conn_request_query) X(ucp_ep_close_nbx) X(ucp_ep_create) X(ucp_init_version) \
  X(ucp_listener_create) X(ucp_listener_destroy) X(ucp_listener_query) X(ucp_listener_reject) \
  X(ucp_request_check_status) X(ucp_request_free) X(ucp_worker_arm) X(ucp_worker_create) X(ucp_worker_destroy) \
  X(ucp_worker_get_efd) X(ucp_worker_progress) X(ucp_worker_set_am_recv_handler) X(ucs_status_string)
// clang-format on

struct Library {
#define COXSWAIN_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  COXSWAIN_UCX_FUNCTIONS(COXSWAIN_UCX_MEMBER)
#undef COXSWAIN_UCX_MEMBER
};

// Loading the library sets handlers for faults and for SIGHUP; those of the process are put back.
class SignalsAsTheyAre {
 public:
  SignalsAsTheyAre() {
    for (int i = 1; i < SIGRTMIN; ++i) ::sigaction(i, nullptr, &were_[static_cast<std::size_t>(i)]);
  }
  ~SignalsAsTheyAre() {
    for (int i = 1; i < SIGRTMIN; ++i) ::sigaction(i, &were_[static_cast<std::size_t>(i)], nullptr);
  }
  SignalsAsTheyAre(const SignalsAsTheyAre&) = delete;
  SignalsAsTheyAre& operator=(const SignalsAsTheyAre&) = delete;

 private:
  std::array<struct sigaction, NSIG> were_ = {};
};

Status cannot(const std::string& what, const std::string& why) {
  return {Code::kFailedPrecondition, ErrorKind::kUnavailable, "UCX: " + what + ": " + why};
}

// It stays: threads of its own may run.
Result<Library> open_library() {
  const SignalsAsTheyAre signals;
  // Otherwise it patches mmap(2), munmap(2) and others in this process as it is loaded, to keep registrations of memory
  // that is used again; the bytes here never are. No other name is set in this process, so what another thread reads of
  // the environment meanwhile stays in memory.
  ::setenv("UCX_MEM_EVENTS", "no", 0);
  void* const handle = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return cannot("libucp.so.0", ::dlerror());
  Library out;
  std::string missing;
  const auto find = [&](const char* name) {
    void* const found = ::dlsym(handle, name);
    if (found == nullptr) missing = name;
    return found;
  };
#define COXSWAIN_UCX_FIND(name) out.name = reinterpret_cast<decltype(out.name)>(find(#name));
  COXSWAIN_UCX_FUNCTIONS(COXSWAIN_UCX_FIND)
#undef COXSWAIN_UCX_FIND
  if (!missing.empty()) return cannot("libucp.so.0", "it has no " + missing);
  return out;
}

// What UCX may use: these interfaces, and the RDMA devices behind them, which it calls DEVICE:PORT.
std::string devices_of(const std::vector<OwnAddress>& addresses) {
  std::string out;
  for (const OwnAddress& own : addresses) {
    const std::filesystem::path folder = "/sys/class/net/" + own.interface;
    unsigned port = 0;
    std::ifstream(folder / "dev_port") >> port;
    out += "," + own.interface;
    std::error_code none;
    for (const auto& device :
         std::filesystem::directory_iterator(folder / "device/infiniband", none))
      out += "," + device.path().filename().string() + ":" + std::to_string(port + 1);
  }
  return out.substr(1);
}

// Messages are the memory of these, as it is on every machine that serves the same model with the same kernel set.
static_assert(std::endian::native == std::endian::little);
using Number = std::array<std::uint64_t, 2>;  // drawn, so that nobody else can answer
using Ticket = std::array<char, 16>;
struct Ask {
  Number number = {};
  std::uint64_t id = 0;
  Ticket ticket = {};
};
struct Answer {
  Number number = {};
  std::uint32_t is_granted = 0;
  AttachmentKind kind = AttachmentKind::kBlocks;
  std::array<std::uint8_t, 3> zero = {};
};
static_assert(sizeof(Ask) == 40 && sizeof(Answer) == 24);
constexpr unsigned kAskId = 0;
constexpr unsigned kAnswerId = 1;

class Carrier;
struct Link;

// A take: of the carrier's thread until it is settled, then of the caller.
struct Take {
  Carrier& carrier;
  UcxTake what = {};
  Ask ask = {};
  std::string bytes = {};
  std::optional<Status> outcome = {};  // guarded by the carrier's lock
  // Of the carrier's thread alone.
  Link* link = nullptr;
  bool is_settled = false;
  bool is_receiving = false;  // UCX writes to `bytes`
};

// A connection, made by either end.
struct Link {
  Carrier& carrier;
  ucp_ep_h ep = nullptr;
  std::string address = {};  // of the source; empty: the other end takes from here
  bool is_broken = false;
};

// What UCX reads until it is sent.
struct Sending {
  Carrier& carrier;
  std::list<Sending>::iterator self = {};
  Ask ask = {};
  Answer answer = {};
  std::shared_ptr<const Attachment> attachment = {};
};

class Carrier final : public UcxCarrier {
 public:
  Carrier(const Library& ucp, UcxOptions options) : ucp_(ucp), options_(std::move(options)) {}
  ~Carrier() override {
    stop_takes();
    if (thread_.joinable()) {
      stopped_ = true;
      wake();
      thread_.join();
    }
    {
      base::MutexLock lock(mu_);
      left_.wait(lock, [&]() REQUIRES(mu_) { return n_taking_ == 0; });
    }
    if (listener_ != nullptr) ucp_.ucp_listener_destroy(listener_);
    if (worker_ != nullptr) ucp_.ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_.ucp_cleanup(context_);
  }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  Status open() {
    const std::vector<OwnAddress> own = own_addresses(options_.networks);
    if (own.empty()) return cannot("networks", "this machine has no address in them");
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_.valid()) return cannot("eventfd", std::strerror(errno));
    COXSWAIN_RETURN_IF_ERROR(open_worker(devices_of(own)));
    COXSWAIN_RETURN_IF_ERROR(listen(own.front().address));
    thread_ = std::thread([this] {
      base::name_thread("ucx");
      run();
    });
    return {};
  }

  const std::string& address() const override { return address_; }

  bool reaches(const std::string& address) override {
    const auto there = parse_ip_address(address);
    if (!there || !contains(options_.networks, *there)) return false;
    base::MutexLock lock(mu_);
    const auto found = failed_.find(address);
    if (found == failed_.end()) return true;
    if (Clock::now() - found->second < kSourcePause) return false;
    failed_.erase(found);
    return true;
  }

  Result<std::string> take(const UcxTake& what, TimePoint until) override {
    const Visit visit(*this);
    const auto take = std::make_shared<Take>(*this, what);
    take->ask = {.number = {base::random_u64(), base::random_u64()}, .id = what.id};
    if (what.ticket.size() != sizeof(Ticket))
      return Status(Code::kNotFound, "a ticket has " + std::to_string(sizeof(Ticket)) + " bytes");
    std::memcpy(take->ask.ticket.data(), what.ticket.data(), sizeof(Ticket));
    send_to_thread(take);
    Status status = wait_for(take, until);
    if (status.ok()) return std::move(take->bytes);
    if (status.code() != Code::kNotFound && status.code() != Code::kCancelled) {
      base::MutexLock lock(mu_);
      if (failed_.size() >= kPeersMax) failed_.clear();
      failed_[what.address] = Clock::now();
    }
    return status;
  }

  void stop_takes() override {
    {
      base::MutexLock lock(mu_);
      takes_end_ = true;
    }
    news_.notify_all();
  }

 private:
  // Called by whoever makes the carrier.

  Status failed(const char* what, ucs_status_t status) const {
    return cannot(what, ucp_.ucs_status_string(status));
  }

  Status open_worker(const std::string& devices) {
    ucp_config_t* config = nullptr;
    if (const auto status = ucp_.ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
      return failed("ucp_config_read", status);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.name = "coxswain";
    ucs_status_t status = ucp_.ucp_config_modify(config, "NET_DEVICES", devices.c_str());
    // Who takes reads or is sent messages: nobody else writes to memory that a take has given up.
    if (status == UCS_OK) status = ucp_.ucp_config_modify(config, "RNDV_SCHEME", "get_zcopy");
    if (status == UCS_OK) {
      status = ucp_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    }
    ucp_.ucp_config_release(config);
    if (status != UCS_OK) return failed("ucp_init", status);
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // this thread, then the carrier's
    status = ucp_.ucp_worker_create(context_, &worker_params, &worker_);
    if (status != UCS_OK) return failed("ucp_worker_create", status);
    status = ucp_.ucp_worker_get_efd(worker_, &events_);
    if (status == UCS_OK) status = set_handler(kAskId, on_ask);
    if (status == UCS_OK) status = set_handler(kAnswerId, on_answer);
    return status == UCS_OK ? Status() : failed("ucp_worker", status);
  }

  ucs_status_t set_handler(unsigned id, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = id;
    param.flags = UCP_AM_FLAG_WHOLE_MSG;
    param.cb = callback;
    param.arg = this;
    return ucp_.ucp_worker_set_am_recv_handler(worker_, &param);
  }

  Status listen(const sockaddr_storage& at) {
    ucp_listener_params_t params{};
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr = to_ucs(at);
    params.conn_handler = {.cb = on_connection, .arg = this};
    ucs_status_t status = ucp_.ucp_listener_create(worker_, &params, &listener_);
    if (status != UCS_OK) return failed("ucp_listener_create", status);
    ucp_listener_attr_t attributes{};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    status = ucp_.ucp_listener_query(listener_, &attributes);
    if (status != UCS_OK) return failed("ucp_listener_query", status);
    address_ = text_of(attributes.sockaddr);
    return {};
  }

  static ucs_sock_addr_t to_ucs(const sockaddr_storage& address) {
    const std::size_t size =
        address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    return {.addr = reinterpret_cast<const sockaddr*>(&address),
            .addrlen = static_cast<socklen_t>(size)};
  }

  // Called by those who take.

  // Whoever is in take(): the carrier ends behind it.
  class Visit {
   public:
    explicit Visit(Carrier& carrier) : carrier_(carrier) {
      base::MutexLock lock(carrier_.mu_);
      ++carrier_.n_taking_;
    }
    ~Visit() {
      base::MutexLock lock(carrier_.mu_);
      if (--carrier_.n_taking_ == 0) carrier_.left_.notify_all();
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Carrier& carrier_;
  };

  // The outcome, or why it is not waited for any longer: the carrier's thread may be held up by the library.
  Status wait_for(const std::shared_ptr<Take>& take, TimePoint until) {
    bool ends = false;
    {
      base::MutexLock lock(mu_);
      news_.wait_until(
          lock, until, [&]() REQUIRES(mu_) { return takes_end_ || take->outcome.has_value(); });
      if (take->outcome) return *take->outcome;
      ends = takes_end_;
    }
    send_to_thread(take);
    if (ends) return {Code::kCancelled, ErrorKind::kUnavailable, "nothing is taken any more"};
    return {Code::kDeadlineExceeded, take->what.address + " has not sent them in time"};
  }

  // The second time it is given up.
  void send_to_thread(std::shared_ptr<Take> take) {
    {
      base::MutexLock lock(mu_);
      incoming_.push_back(std::move(take));
    }
    wake();
  }

  void wake() const {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof one));
  }

  // Everything below: of the carrier's thread.

  void run() {
    while (!stopped_) {
      const bool has_begun = begin_takes();
      const bool has_moved = ucp_.ucp_worker_progress(worker_) != 0;
      if (close_broken() || has_begun || has_moved) continue;
      if (ucp_.ucp_worker_arm(worker_) == UCS_ERR_BUSY) continue;
      std::array<pollfd, 2> wait{pollfd{.fd = events_, .events = POLLIN, .revents = 0},
                                 pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
      ::poll(wait.data(), wait.size(), -1);
      std::uint64_t ignored = 0;
      static_cast<void>(::read(wake_.get(), &ignored, sizeof ignored));
    }
    end();
  }

  void end() {
    ucp_.ucp_listener_destroy(std::exchange(listener_, nullptr));
    begin_takes();
    for (Link& link : links_) link.is_broken = true;
    const TimePoint last = Clock::now() + kCloseTimeMax;
    while ((close_broken() || !closing_.empty()) && Clock::now() < last)
      ucp_.ucp_worker_progress(worker_);
  }

  // False: there is none.
  bool begin_takes() {
    std::vector<std::shared_ptr<Take>> now;
    {
      base::MutexLock lock(mu_);
      now.swap(incoming_);
    }
    for (std::shared_ptr<Take>& take : now) {
      if (take->link == nullptr && !take->is_settled) {
        begin(std::move(take));
      } else if (!take->is_settled) {
        take->link->is_broken = true;  // nothing less ends it
      }
    }
    return !now.empty();
  }

  void begin(std::shared_ptr<Take> take) {
    Link* const link = link_to(take->what.address);
    if (link == nullptr) return settle(*take, unavailable(take->what.address, "no connection"));
    take->link = link;
    Sending& sending = sendings_.emplace_back(Sending{.carrier = *this, .ask = take->ask});
    takes_.emplace(take->ask.number, std::move(take));
    send(*link, sending, kAskId, &sending.ask, sizeof(Ask));
  }

  Link* link_to(const std::string& address) {
    const auto found = std::find_if(links_.begin(), links_.end(), [&](const Link& link) {
      return link.address == address && !link.is_broken;
    });
    if (found != links_.end()) return &*found;
    const auto there = parse_ip_address(address);
    if (!there) return nullptr;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr = to_ucs(*there);
    return open_link(params, address);
  }

  Link* open_link(ucp_ep_params_t& params, const std::string& address) {
    Link& link = links_.emplace_back(Link{.carrier = *this, .address = address});
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {.cb = on_link_lost, .arg = &link};
    if (ucp_.ucp_ep_create(worker_, &params, &link.ep) == UCS_OK) return &link;
    links_.pop_back();
    return nullptr;
  }

  // True: one was. Who waits for it is told, and it is closed without another word to the other end.
  bool close_broken() {
    std::erase_if(closing_, [&](void* request) {
      if (ucp_.ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      ucp_.ucp_request_free(request);
      return true;
    });
    bool any = false;
    for (auto link = links_.begin(); link != links_.end();) {
      if (!link->is_broken) {
        ++link;
        continue;
      }
      any = true;
      for (auto take = takes_.begin(); take != takes_.end();) {
        // Where UCX still writes, on_received() lets it go.
        const auto next = std::next(take);
        if (take->second->link == &*link) {
          settle(*take->second, unavailable(link->address, "the connection is lost"));
          if (!take->second->is_receiving) takes_.erase(take);
        }
        take = next;
      }
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;
      void* const request = ucp_.ucp_ep_close_nbx(link->ep, &param);
      if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
      link = links_.erase(link);
    }
    return any;
  }

  static Status unavailable(const std::string& address, const std::string& why) {
    return {Code::kUnavailable, address + ": " + why};
  }

  // What is settled is the caller's.
  static void settle(Take& take, const Status& status) {
    if (std::exchange(take.is_settled, true)) return;
    Carrier& self = take.carrier;
    {
      base::MutexLock lock(self.mu_);
      take.outcome = status;
    }
    self.news_.notify_all();
  }

  void send(Link& link, Sending& sending, unsigned id, const void* header, std::size_t n_header) {
    sending.self = std::prev(sendings_.end());
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_REPLY;
    param.cb.send = on_sent;
    param.user_data = &sending;
    const std::string_view bytes =
        sending.attachment != nullptr ? sending.attachment->bytes : std::string_view();
    void* const request =
        ucp_.ucp_am_send_nbx(link.ep, id, header, n_header, bytes.data(), bytes.size(), &param);
    if (UCS_PTR_IS_PTR(request)) return;
    if (UCS_PTR_IS_ERR(request)) link.is_broken = true;
    sendings_.erase(sending.self);
  }

  static void on_sent(void* request, ucs_status_t, void* user_data) {
    Sending& sending = *static_cast<Sending*>(user_data);
    Carrier& self = sending.carrier;
    self.sendings_.erase(sending.self);
    self.ucp_.ucp_request_free(request);
  }

  static void on_connection(ucp_conn_request_h request, void* arg) {
    Carrier& self = *static_cast<Carrier*>(arg);
    ucp_conn_request_attr_t about{};
    about.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
    const bool is_known = self.ucp_.ucp_conn_request_query(request, &about) == UCS_OK &&
                          contains(self.options_.networks, about.client_address);
    const auto n_peers = std::count_if(self.links_.begin(),
                                       self.links_.end(),
                                       [](const Link& link) { return link.address.empty(); });
    if (!is_known || static_cast<std::size_t>(n_peers) >= kPeersMax) {
      self.ucp_.ucp_listener_reject(self.listener_, request);
      return;
    }
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    self.open_link(params, {});
  }

  static void on_link_lost(void* arg, ucp_ep_h, ucs_status_t) {
    static_cast<Link*>(arg)->is_broken = true;
  }

  static ucs_status_t on_ask(void* arg,
                             const void* header,
                             std::size_t n_header,
                             void*,
                             std::size_t,
                             const ucp_am_recv_param_t* param) {
    Carrier& self = *static_cast<Carrier*>(arg);
    const auto link = std::find_if(self.links_.begin(), self.links_.end(), [&](const Link& one) {
      return (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 &&
             one.ep == param->reply_ep && !one.is_broken;
    });
    if (link == self.links_.end() || n_header != sizeof(Ask)) return UCS_OK;
    Ask ask;
    std::memcpy(&ask, header, sizeof ask);
    Sending& sending = self.sendings_.emplace_back(Sending{.carrier = self});
    sending.attachment =
        self.options_.redeem(ask.id, std::string_view(ask.ticket.data(), ask.ticket.size()));
    sending.answer = {.number = ask.number};
    if (sending.attachment != nullptr) {
      sending.answer.is_granted = 1;
      sending.answer.kind = sending.attachment->kind;
    }
    self.send(*link, sending, kAnswerId, &sending.answer, sizeof(Answer));
    return UCS_OK;
  }

  static ucs_status_t on_answer(void* arg,
                                const void* header,
                                std::size_t n_header,
                                void* data,
                                std::size_t n_bytes,
                                const ucp_am_recv_param_t* param) {
    Carrier& self = *static_cast<Carrier*>(arg);
    Answer answer;
    if (n_header != sizeof answer) return UCS_OK;
    std::memcpy(&answer, header, sizeof answer);
    const auto found = self.takes_.find(answer.number);
    if (found == self.takes_.end() || found->second->is_receiving) return UCS_OK;
    Take& take = *found->second;
    const std::string& from = take.what.address;
    if (answer.is_granted != 1) {
      self.finish(take, {Code::kNotFound, from + ": nothing is offered for this ticket"});
    } else if (answer.kind != take.what.kind || n_bytes != take.what.n_bytes) {
      self.finish(take, {Code::kNotFound, from + ": they are others than was said"});
    } else if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
      take.bytes.assign(static_cast<const char*>(data), n_bytes);
      self.finish(take, {});
    } else {
      self.receive(take, data);
      return UCS_INPROGRESS;
    }
    return UCS_OK;
  }

  void receive(Take& take, void* descriptor) {
    take.bytes.resize(take.what.n_bytes);
    take.is_receiving = true;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv_am = on_received;
    param.user_data = &take;
    void* const request = ucp_.ucp_am_recv_data_nbx(
        worker_, descriptor, take.bytes.data(), take.bytes.size(), &param);
    if (!UCS_PTR_IS_PTR(request)) received(take, UCS_PTR_STATUS(request));
  }

  static void on_received(void* request, ucs_status_t status, std::size_t, void* user_data) {
    Take& take = *static_cast<Take*>(user_data);
    Carrier& self = take.carrier;
    self.ucp_.ucp_request_free(request);
    self.received(take, status);
  }

  void received(Take& take, ucs_status_t status) {
    finish(take,
           status == UCS_OK ? Status()
                            : unavailable(take.what.address, ucp_.ucs_status_string(status)));
  }

  void finish(Take& take, const Status& status) {
    settle(take, status);
    takes_.erase(Number(take.ask.number));  // it may end with this
  }

  const Library ucp_;
  const UcxOptions options_;
  std::string address_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int events_ = -1;  // of the worker, which closes it
  Descriptor wake_;
  std::atomic<bool> stopped_{false};

  base::Mutex mu_;
  std::vector<std::shared_ptr<Take>> incoming_ GUARDED_BY(mu_);
  std::map<std::string, TimePoint> failed_ GUARDED_BY(mu_);  // addresses of sources
  std::size_t n_taking_ GUARDED_BY(mu_) = 0;
  base::CondVar left_;
  bool takes_end_ GUARDED_BY(mu_) = false;
  base::CondVar news_;  // of takes

  // Of the thread.
  std::list<Link> links_;
  std::map<Number, std::shared_ptr<Take>> takes_;
  std::list<Sending> sendings_;
  std::vector<void*> closing_;  // requests

  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<UcxCarrier>> start_ucx(UcxOptions options) {
  COXSWAIN_ASSIGN_OR_RETURN(const Library ucp, open_library());
  auto carrier = std::make_unique<Carrier>(ucp, std::move(options));
  COXSWAIN_RETURN_IF_ERROR(carrier->open());
  return std::unique_ptr<UcxCarrier>(std::move(carrier));
}

bool has_ucx() {
  return true;
}

}  // namespace coxswain::rpc
