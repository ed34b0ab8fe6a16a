"""What warpserve raises.

WarpserveError
├── InstallationError        a compiled part or a library is missing
├── InvalidDuration          negative, NaN, infinite, or more than the clock holds (also ValueError)
└── SessionError
    ├── SessionEnded         the Timekeeper is gone, or the session has ended
    ├── ProtocolMismatch     Timekeeper and client are of different versions
    └── TokenRefused         the token is not this session's
"""


class WarpserveError(Exception):
    """The base of all that warpserve raises."""


class InstallationError(WarpserveError):
    """A compiled part or a library is missing."""


class InvalidDuration(WarpserveError, ValueError):
    """Negative, NaN, infinite, or more than the clock holds."""


class SessionError(WarpserveError):
    """A session could not do what was asked."""


class SessionEnded(SessionError):
    """The Timekeeper is gone, or the session has ended."""


class ProtocolMismatch(SessionError):
    """Timekeeper and client are of different versions."""


class TokenRefused(SessionError):
    """The token is not this session's."""
