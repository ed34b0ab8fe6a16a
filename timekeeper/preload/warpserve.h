/* The C API of a session's member: the clock, explicit actors and holds.
 *
 * In a process that runs with this library preloaded (`warpserve run -- …`) the membership exists
 * from the start. Others open the library with dlopen and call ws_join: their clocks stay the
 * host's, and only what is done through this API takes part in the session.
 *
 * All times are ns of virtual time since the start of the session, but for ws_host_now_ns.
 * Functions that return int return WS_OK (0) or more, or one of the negative ws_status; ws_error
 * says it in words. Unless it says otherwise, a function may be called by any thread at any time.
 * An actor or a hold belongs to the process that made it: not to its forked children.
 */
#ifndef WARPSERVE_H
#define WARPSERVE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ws_status {
  WS_OK = 0,
  WS_NOT_A_MEMBER = -1,     /* the process is in no session, or the handle is its parent's */
  WS_ALREADY_A_MEMBER = -2, /* ws_join: one process, one session */
  WS_REFUSED = -3,          /* ws_join: see ws_join_error */
  WS_NO_TIMEKEEPER = -4,    /* ws_join: see ws_join_error */
  WS_NEGATIVE = -5,         /* a negative duration or time */
  WS_OUT_OF_RANGE = -6,     /* now + duration is more than the clock holds */
  WS_CANCELLED = -7,        /* ws_actor_cancel ended the wait */
  WS_INTERRUPTED = -8,      /* a signal handler has run; the wait is over */
  WS_BUSY = -9,             /* the actor is waiting already */
  WS_ENDED = -10,           /* the session is over */
  WS_NO_MEMORY = -11,
};

enum ws_clock_mode { WS_EXACT = 1, WS_LIVE = 2, WS_SLEEP = 3 };

typedef struct ws_actor ws_actor;
typedef struct ws_hold ws_hold;

const char* ws_error(int status);

/* --- Membership ------------------------------------------------------------------------------- */

/* Joins the session in that folder. Not thread-safe: call it before other threads use this API. */
int ws_join(const char* folder);
/* Why the last ws_join failed. */
const char* ws_join_error(void);
/* 1 or 0. */
int ws_is_member(void);
/* The folder of the session, or "". */
const char* ws_session_folder(void);
/* An enum ws_clock_mode, or WS_NOT_A_MEMBER. */
int ws_mode(void);
/* 1 once the session is over. */
int ws_ended(void);

/* --- The clock -------------------------------------------------------------------------------- */

/* Outside a session: -1. Does not count as an idle clock read. */
int64_t ws_now_ns(void);
/* What CLOCK_REALTIME and CLOCK_MONOTONIC read at virtual time 0. Outside a session: -1. */
int64_t ws_realtime_epoch_ns(void);
int64_t ws_monotonic_base_ns(void);
/* The host's CLOCK_MONOTONIC, in a member, too. */
int64_t ws_host_now_ns(void);

/* Blocks until nothing more happens at this instant of virtual time: what others do and send at it
 * has then been done and has arrived. No time passes, and signal handlers do not end the wait.
 * Where host time passes there is no such moment: WS_OK at once. */
int ws_settle(void);

/* --- Actors ----------------------------------------------------------------------------------- */

/* Whoever knows when its next action completes. One wait at a time; the barrier waits for each
 * actor to be in one. `label` (at most 23 bytes are kept) is what `warpserve status` shows. */
int ws_actor_create(const char* label, ws_actor** actor);

/* Blocks until virtual time has reached the target: WS_OK at once where it has. A signal handler
 * ends the wait with WS_INTERRUPTED; wait again for the same target to go on. */
int ws_actor_wait_until(ws_actor* actor, int64_t target_ns);
/* Blocks for a duration; goes on after signal handlers. */
int ws_actor_jump(ws_actor* actor, int64_t duration_ns);
/* Ends the blocking wait that the actor is in, or else the next one, with WS_CANCELLED. */
int ws_actor_cancel(ws_actor* actor);

/* For event loops: the wait begins, and `eventfd` becomes readable when the target is reached. Keep
 * the same eventfd open for the life of the actor. These three and destroy: one thread at a time.
 */
int ws_actor_arm(ws_actor* actor, int64_t target_ns, int eventfd);
/* 1 once the armed wait is over, else 0. (The eventfd may still be readable from an earlier wait.)
 */
int ws_actor_is_due(const ws_actor* actor);
/* Ends the armed wait. 1 where its target had been reached, 0 where not or where there was none. */
int ws_actor_disarm(ws_actor* actor);

/* The actor must not be waiting in another thread. Null is allowed. */
void ws_actor_destroy(ws_actor* actor);

/* --- Holds ------------------------------------------------------------------------------------ */

/* Virtual time does not advance until the hold is released (or its process has died). */
int ws_hold_create(const char* label, ws_hold** hold);
/* Null is allowed. */
void ws_hold_release(ws_hold* hold);

#ifdef __cplusplus
}
#endif

#endif /* WARPSERVE_H */
