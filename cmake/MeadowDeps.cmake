# Everything that Meadow does not write itself, from the package manager. docs/dependencies.md says
# why each is there. Third-party headers stay in the folder named here.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)             # base: text formatting
find_package(OpenSSL 3.0 REQUIRED)     # base: Ed25519, SHA-256, HMAC; rpc: certificates
find_package(nlohmann_json REQUIRED)   # client, apps, tests: JSON
find_package(CLI11 REQUIRED)           # apps: options
find_package(Protobuf REQUIRED)        # rpc: the wire contract
find_package(gRPC CONFIG REQUIRED)     # rpc: streams, deadlines, TLS
find_package(HWY QUIET CONFIG)         # kernels: one SIMD source for every target
if(NOT TARGET hwy::hwy)
  pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
  add_library(hwy::hwy ALIAS PkgConfig::HWY)
endif()
pkg_check_modules(LIBTORRENT REQUIRED IMPORTED_TARGET libtorrent-rasterbar)  # swarm/dht
if(MEADOW_TESTS)
  find_package(GTest REQUIRED)
endif()
