// What the client throws; the same tree as warpserve.errors in Python.
#pragma once

#include <stdexcept>

namespace warpserve::client {

class SessionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// The Timekeeper is gone, or the session has ended.
class SessionEnded : public SessionError {
 public:
  using SessionError::SessionError;
};
class ProtocolMismatch : public SessionError {
 public:
  using SessionError::SessionError;
};
class TokenRefused : public SessionError {
 public:
  using SessionError::SessionError;
};
// Negative, or more than the clock holds.
class InvalidDuration : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

}  // namespace warpserve::client
