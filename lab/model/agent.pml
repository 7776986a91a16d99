/* Holdfast's exactly-once protocol, with an agent beside each switch: docs/design/control-path.md.
 * What is left out, and why that is sound: docs/design/model.md.
 *
 * A step is atomic: one process sends a message, receives one, or appends an entry to the log.
 * Between any two steps a controller may crash, or another may be elected. Every #ifdef removes one
 * mechanism. Spin must find an error then. */

#ifndef C
#define C 2 /* controllers; 3 at most */
#endif
#ifndef S
#define S 2 /* switches */
#endif
#ifndef E
#define E 2 /* events of each switch; each event makes one command for every switch */
#endif
#ifndef TERMS
#define TERMS 3 /* elections; the last leader stays */
#endif
#ifndef CRASHES
#define CRASHES 1 /* of leaders */
#endif
#ifndef BREAKS
#define BREAKS 0 /* of connections between live processes */
#endif
#ifndef STALE
#define STALE 1 /* a leader may be deposed and not know it; 0: the leader crashes before another is elected */
#endif
#ifndef DOWNROOM
#define DOWNROOM 2 /* messages in flight to an agent, on each connection */
#endif
#ifndef UPROOM
#define UPROOM 1 /* messages in flight from an agent, on each connection */
#endif

#define N (S * E) /* events, and commands for each switch */
#define NONE 255
#define SWITCH(e) (((e) - 1) / E) /* events are numbered from 1; 0 is none */
#define SEQ(e) (((e) - 1) % E + 1)

#define say printf
#define must(ok, property) if :: ok :: else -> say(property); assert(false) fi

byte i, j, x, y, z; /* scratch, within a step */
mtype m;
#define tidy i = 0; j = 0; x = 0; y = 0; z = 0; m = 0

/* The replicated log. Appending is one step, and fails in every term but the newest. */
byte term;
byte log[N + 1]; /* events, in order: entry k gives command k its number, at every switch */
byte logged;
byte done[S]; /* number of commands of each switch that are done according to the log */

typedef controller {
	byte lead;         /* the term that it believes it leads in; 0 if it follows */
	byte state[N + 1]; /* what its applications have seen, in order */
	byte known;        /* number of them that are in the log */
	byte executed;     /* number executed; at most one more than known */
	byte events[S];    /* number of the known events that are from this switch */
	byte completed[S]; /* number of commands that are done in the log, as far as it knows */
	bool claimed[S];   /* ROLE_REQUEST was sent in this term */
	bool accepted[S];  /* the answer has arrived: events count now */
	byte acked[S];     /* last EVENT_ACK sent */
	byte sent[S];      /* last COMMAND sent */
	byte attach[S];    /* number of events that the agent had discarded when it connected */
};
controller ctl[C];

typedef agent {
	byte generation;
	byte master;   /* a controller, or NONE */
	byte first;    /* number of discarded events; it holds the others */
	byte cursor;   /* last event sent to the master */
	byte executed; /* last command that it forwarded to the switch, which executes it */
};
agent agt[S];
byte given[S * N]; /* event that caused the executed command k of switch s: given[s * N + k - 1] */

mtype = { ROLE_REQUEST, EVENT_ACK, COMMAND, ROLE_REPLY, EVENT };
chan down[C * S] = [DOWNROOM] of { mtype, byte, byte, byte }; /* number; of COMMAND also its event and term */
chan up[C * S] = [UPROOM] of { mtype, byte };
#define DOWN down[c * S + s]
#define UP up[c * S + s]

byte crashes, breaks;
#ifdef NO_SHARED_LOG
byte direct[C * S]; /* number of events that a follower has received from a switch */
#endif

inline clear(q) { do :: len(q) > 0 -> q?m,x :: else -> break od }
inline clear3(q) { do :: len(q) > 0 -> q?m,x,y,z :: else -> break od }

/* The mechanisms, and what replaces them when they are removed. */
#if defined(NO_FENCING) || defined(NO_COMMAND_FENCING)
#define POWERLESS false
#else
#define POWERLESS (ctl[c].lead < agt[s].generation) /* the switch refuses what it sends */
#endif
#define LACKS (ctl[c].attach[s] > ctl[c].events[s]) /* acknowledged events are not in its log */
#ifdef NO_TERM_BEFORE_LOG
#define STALE_TERM false
#else
#define STALE_TERM (ctl[c].lead < agt[s].generation)
#endif
#ifdef ACK_BEFORE_LOG
#define ACKNOWLEDGED (ctl[c].events[s] + (ctl[c].executed > ctl[c].known && SWITCH(ctl[c].state[ctl[c].known]) == s))
#else
#define ACKNOWLEDGED ctl[c].events[s]
#endif
#ifdef NO_LOG_BEFORE_COMMANDS
#define RELEASED ctl[c].executed
#else
#define RELEASED ctl[c].known
#endif
#ifdef COMPLETE_BEFORE_EXECUTED
#define COMPLETE ctl[c].sent[s]
#else
#define COMPLETE agt[s].executed
#endif
#ifdef NO_EVENT_DEDUPE
#define LOGGED(seq) false
#else
#define LOGGED(seq) (seq <= ctl[c].events[s])
#endif
#ifdef NO_FENCING
#define FENCED false
#else
#define FENCED true
#endif
#ifdef NO_COMMAND_FENCING
#define REFUSED false
#else
#define REFUSED (agt[s].master != c || agt[s].generation != z)
#endif
#ifdef NO_COMMAND_FILTER
#define HAD(k) false
#else
#define HAD(k) (k <= agt[s].executed)
#endif

#define MAYSTAND (STALE || ctl[0].lead + ctl[1].lead + ctl[C - 1].lead == 0)

inline reset(c, s) { /* a session without a claim */
	ctl[c].acked[s] = 0; ctl[c].sent[s] = ctl[c].completed[s]; ctl[c].claimed[s] = false; ctl[c].accepted[s] = false
}

/* The controller undoes what is not in the log, and applies the rest of the log. */
inline follow(c) {
	ctl[c].lead = 0;
#ifndef NO_UNDO
	do
	:: ctl[c].executed > ctl[c].known -> ctl[c].executed--; ctl[c].state[ctl[c].executed] = 0
	:: else -> break
	od;
#endif
	for (j : 0 .. S - 1) { ctl[c].completed[j] = 0; reset(c, j) }
	apply(c)
}

inline apply(c) {
#ifndef NO_SHARED_LOG
	do
	:: ctl[c].executed < logged ->
		ctl[c].state[ctl[c].executed] = log[ctl[c].executed];
		ctl[c].executed++
	:: else -> break
	od;
#endif
	do
	:: ctl[c].known < logged -> ctl[c].events[SWITCH(log[ctl[c].known])]++; ctl[c].known++
	:: else -> break
	od
}

/* Once a switch has a newer master, it refuses everything that an older leader sends. So the model lets that
 * leader send nothing more to it; and when all switches refuse a leader, the leader becomes a follower. */
inline fence(s) {
	for (i : 0 .. C - 1) {
		if
		:: ctl[i].lead && ctl[i].lead < agt[s].generation ->
			reset(i, s);
			ctl[i].sent[s] = 0;
			y = 0;
			for (j : 0 .. S - 1) { if :: agt[j].generation > ctl[i].lead -> y++ :: else fi }
			if :: y == S && BREAKS == 0 -> follow(i) :: else fi
		:: else
		fi
	}
}

proctype Controller(byte c) {
end:	do
	:: d_step { term < TERMS && (term > 0 || c == 0) && MAYSTAND -> /* by symmetry, c1 leads first */
		term++;
		say("> c%d becomes leader of term %d\n", c + 1, term);
		follow(c);
		ctl[c].lead = term;
		for (j : 0 .. S - 1) {
			ctl[c].completed[j] = done[j];
#ifdef NO_RESEND
			ctl[c].sent[j] = logged
#else
			ctl[c].sent[j] = done[j]
#endif
		}
		for (i : 0 .. N - 1) {
			must(i >= logged || i >= ctl[c].executed || ctl[c].state[i] == log[i],
				"! replicated control state: a replica has processed other events, or in another order, than the log\n")
		};
		tidy
	}
	:: d_step { ctl[c].lead && ctl[c].executed > ctl[c].known ->
		x = ctl[c].state[ctl[c].known];
		if
		:: ctl[c].lead == term ->
			say("> c%d appends (s%d,e%d) to the log\n", c + 1, SWITCH(x) + 1, SEQ(x));
			for (i : 0 .. N - 1) {
				must(i >= logged || log[i] != x, "! at most once events: an event is in the log twice\n")
			}
			must(SEQ(x) == ctl[c].events[SWITCH(x)] + 1,
				"! total event order: an event is in the log before an earlier one of its switch\n");
			for (j : 0 .. S - 1) {
				must(given[j * N + logged] == 0 || given[j * N + logged] == x,
					"! total event order: a switch has executed another command than the log says\n")
			}
			log[logged] = x;
			logged++;
			for (i : 0 .. C - 1) {
				if :: i == c || !ctl[i].lead -> apply(i) :: else fi
			}
		:: else ->
			say("> c%d cannot append in term %d: it was deposed, and follows\n", c + 1, ctl[c].lead);
			follow(c)
		fi;
		tidy
	}
	:: d_step { ctl[c].lead && crashes < CRASHES && (ctl[c].lead < term || term < TERMS) ->
		say("> c%d crashes\n", c + 1); /* it restarts as a follower */
		crashes++;
		follow(c);
		for (i : 0 .. S - 1) { clear(up[c * S + i]) };
		tidy
	}
	od
}

/* A controller's end of the connection to a switch. */
proctype Session(byte c; byte s) {
end:	do
	:: d_step { ctl[c].lead && !ctl[c].claimed[s] && LACKS && !STALE_TERM ->
		say("> s%d believes that the log of c%d is lost, discards its events and begins a new epoch\n",
			s + 1, c + 1);
		must(agt[s].first == E, "! at least once events: events that are not in the log are discarded\n");
		must(false, "! at least once events: the log is not lost\n")
	}
	:: d_step { ctl[c].lead && !ctl[c].claimed[s] && !LACKS && !POWERLESS && nfull(DOWN) ->
		say("> c%d claims s%d in term %d\n", c + 1, s + 1, ctl[c].lead);
		DOWN!ROLE_REQUEST,ctl[c].lead,0,0;
		ctl[c].claimed[s] = true;
		tidy
	}
	:: d_step { ctl[c].claimed[s] && ACKNOWLEDGED > ctl[c].acked[s] && nfull(DOWN) ->
		say("> c%d acknowledges to s%d its events up to e%d\n", c + 1, s + 1, ACKNOWLEDGED);
		DOWN!EVENT_ACK,ACKNOWLEDGED,0,0;
		ctl[c].acked[s] = ACKNOWLEDGED;
		tidy
	}
	:: d_step { ctl[c].claimed[s] && ctl[c].acked[s] >= ctl[c].events[s] && ctl[c].sent[s] < RELEASED && nfull(DOWN) ->
		x = ctl[c].state[ctl[c].sent[s]];
		ctl[c].sent[s]++;
		say("> c%d sends s%d command %d, of event (s%d,e%d)\n", c + 1, s + 1, ctl[c].sent[s], SWITCH(x) + 1, SEQ(x));
		DOWN!COMMAND,ctl[c].sent[s],x,ctl[c].lead;
		tidy
	}
	:: d_step { nempty(UP) && (!ctl[c].lead || ctl[c].executed == ctl[c].known) ->
		UP?m,x;
		if
		:: m == ROLE_REPLY -> ctl[c].accepted[s] = ctl[c].claimed[s] && x == ctl[c].lead
		:: else -> /* EVENT */
			if
			:: !ctl[c].accepted[s] || LOGGED(x) -> say("> c%d drops (s%d,e%d)\n", c + 1, s + 1, x)
			:: else ->
				must(x <= ctl[c].events[s] + 1, "! at least once events: an event is missing before this one\n");
				say("> c%d receives and executes (s%d,e%d)\n", c + 1, s + 1, x);
				ctl[c].state[ctl[c].executed] = s * E + x;
				ctl[c].executed++
			fi
		fi;
		tidy
	}
	:: d_step { ctl[c].claimed[s] && agt[s].master == c && COMPLETE > ctl[c].completed[s] ->
		if
		:: ctl[c].lead == term ->
			done[s] = COMPLETE;
			ctl[c].completed[s] = done[s];
			say("> c%d logs that s%d has executed its commands up to %d\n", c + 1, s + 1, done[s])
		:: else -> follow(c)
		fi;
		tidy
	}
	:: d_step { ctl[c].lead && breaks < BREAKS ->
		say("> the connection of c%d and s%d breaks, and is set up again\n", c + 1, s + 1);
		breaks++;
		clear(UP);
		clear3(DOWN);
		if :: agt[s].master == c -> agt[s].master = NONE :: else fi;
		reset(c, s);
		ctl[c].attach[s] = agt[s].first;
		tidy
	}
	od
}

/* The agent's end. */
proctype Peer(byte c; byte s) {
end:	do
	:: d_step { nempty(DOWN) && nfull(UP) ->
		DOWN?m,x,y,z;
		if
		:: m == ROLE_REQUEST ->
			if
			:: x < agt[s].generation && FENCED -> say("> s%d refuses the claim of c%d in term %d\n", s + 1, c + 1, x)
			:: else ->
				say("> s%d accepts c%d as its master in term %d\n", s + 1, c + 1, x);
				agt[s].generation = x;
				agt[s].master = c;
				agt[s].cursor = agt[s].first;
				if :: ctl[c].lead == x -> UP!ROLE_REPLY,x :: else fi;
#if !defined(NO_FENCING) && !defined(NO_COMMAND_FENCING)
				fence(s)
#endif
			fi
		:: m == EVENT_ACK ->
			if
			:: agt[s].master == c && x > agt[s].first ->
				say("> s%d discards its events up to e%d\n", s + 1, x);
				agt[s].first = x;
				if :: agt[s].cursor < x -> agt[s].cursor = x :: else fi
			:: else
			fi
		:: else -> /* COMMAND */
			if
			:: REFUSED -> say("> s%d refuses command %d of c%d in term %d\n", s + 1, x, c + 1, z)
			:: else ->
				if
				:: HAD(x) -> say("> s%d drops command %d, which it has already forwarded\n", s + 1, x)
				:: else ->
					must(x <= agt[s].executed + 1, "! at least once commands: a command is missing before this one\n");
					agt[s].executed = x;
					say("> s%d executes command %d, of event (s%d,e%d)\n", s + 1, x, SWITCH(y) + 1, SEQ(y));
					must(given[s * N + x - 1] == 0, "! at most once commands: a switch executes a command twice\n");
					must(x > logged || log[x - 1] == y,
						"! total event order: a switch executes another command than the log says\n");
					given[s * N + x - 1] = y
				fi
			fi
		fi;
		tidy
	}
	:: d_step { crashes > 0 && !ctl[c].lead && nempty(DOWN) -> /* messages in flight are lost */
		say("> s%d detects that its connection to c%d is broken\n", s + 1, c + 1);
		clear3(DOWN);
		tidy
	}
	:: d_step { agt[s].master == c && ctl[c].lead == agt[s].generation && agt[s].cursor < E && nfull(UP) ->
		agt[s].cursor++;
		say("> s%d sends (s%d,e%d) to c%d\n", s + 1, s + 1, agt[s].cursor, c + 1);
		UP!EVENT,agt[s].cursor;
#ifdef NO_EVENT_BUFFER
		agt[s].first = agt[s].cursor;
#endif
		tidy
	}
#ifdef NO_SHARED_LOG
	:: d_step { !ctl[c].lead && direct[c * S + s] < E ->
		direct[c * S + s]++;
		say("> c%d, a follower, receives and executes (s%d,e%d) too\n", c + 1, s + 1, direct[c * S + s]);
		ctl[c].state[ctl[c].executed] = s * E + direct[c * S + s];
		ctl[c].executed++;
		tidy
	}
#endif
	od
}

init {
	atomic {
		for (i : 0 .. S - 1) { agt[i].master = NONE }
		for (i : 0 .. C - 1) {
			run Controller(i);
			for (j : 0 .. S - 1) { run Session(i, j); run Peer(i, j) }
		};
		tidy
	}
	timeout ->
	must(logged == N, "! at least once events: an event is never processed\n");
	for (j : 0 .. S - 1) {
		must(agt[j].executed == N, "! at least once commands: a command is never executed\n");
		must(done[j] == N, "! at least once commands: a command is never known to be executed\n")
	}
end:	false
}

#ifdef LIVENESS
/* If there are no more faults, everything is done eventually. */
ltl recovery {
	<> (logged == N && done[0] == N && done[S - 1] == N && agt[0].executed == N && agt[S - 1].executed == N)
}
#endif
