#pragma once
// Rows of the option table. Who may use the server.
// TGI's names, variables and defaults come first, ours after them.

#include "options/option_spec.h"

namespace coxswain::options {

inline constexpr OptionSpec kSecurityRows[] = {
    {.name = "api-key",
     .env = "API_KEY",
     .binaries = kFront,
     .secret = true,
     .common = true,
     .help = "Key that requests must carry as `Authorization: Bearer KEY`; the variable keeps it "
             "out of process lists"},
    {.name = "api-keys-path",
     .env = "COXSWAIN_API_KEYS_PATH",
     .binaries = kFront,
     .ours = true,
     .help =
         "JSON file of further keys, each with a name and limits of its own; read again when it "
         "changes"},
    {.name = "tls-cert-path",
     .env = "COXSWAIN_TLS_CERT_PATH",
     .binaries = kFront,
     .ours = true,
     .help =
         "PEM file of the certificate, with its chain, to speak TLS on --port; read again when it "
         "changes"},
    {.name = "tls-key-path",
     .env = "COXSWAIN_TLS_KEY_PATH",
     .binaries = kFront,
     .ours = true,
     .help = "PEM file of the key of that certificate, without a password"},
    {.name = "tls-client-ca-path",
     .env = "COXSWAIN_TLS_CLIENT_CA_PATH",
     .binaries = kFront,
     .ours = true,
     .help = "PEM file of the authorities of which every client must have a certificate"},
    {.name = "protect-all",
     .env = "COXSWAIN_PROTECT_ALL",
     .type = OptionType::kFlag,
     .binaries = kFront,
     .ours = true,
     .help = "Ask for the key on every route but /health"},
    {.name = "ngrok",
     .env = "NGROK",
     .type = OptionType::kFlag,
     .binaries = kFront,
     .status = OptionStatus::kRefused,
     .help = "Open a public tunnel",
     .reason = "no tunnel is opened; put a proxy in front"},
    {.name = "ngrok-authtoken",
     .env = "NGROK_AUTHTOKEN",
     .binaries = kFront,
     .status = OptionStatus::kNoop,
     .secret = true,
     .help = "Token of the tunnel",
     .reason = "no tunnel is opened"},
    {.name = "ngrok-edge",
     .env = "NGROK_EDGE",
     .binaries = kFront,
     .status = OptionStatus::kNoop,
     .help = "Name of the tunnel",
     .reason = "no tunnel is opened"},
};

}  // namespace coxswain::options
