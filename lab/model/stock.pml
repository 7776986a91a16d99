/* The exactly-once protocol with switches without agents: nothing is installed beside them.
 * Every controller is connected to every switch. Standbys keep the events that they receive until these are in
 * the log. The commands of a transaction are sent to a switch in one atomic bundle with a marker:
 * a flow entry whose cookie is the number of the bundle. A new master reads the marker before it sends anything.
 * What is left out, and why that is sound: docs/design/model.md. */

#ifndef C
#define C 2 /* controllers; 3 at most */
#endif
#ifndef S
#define S 2 /* switches */
#endif
#ifndef E
#define E 1 /* events of each switch; each event makes one bundle for every switch */
#endif
#ifndef TERMS
#define TERMS 2 /* elections; the last leader stays */
#endif
#ifndef CRASHES
#define CRASHES 1 /* of controllers; each may start again */
#endif
#ifndef STALE
#define STALE 1 /* a leader may be deposed and not know it; 0: the leader crashes before another is elected */
#endif

#define N (S * E)
#define NONE 255
#define SWITCH(e) (((e) - 1) / E) /* events are numbered from 1; 0 is none */
#define SEQ(e) (((e) - 1) % E + 1)

#define say printf
#define must(ok, property) if :: ok :: else -> say(property); assert(false) fi

byte i, j, x, y; /* scratch, within a step */
mtype m;
#define tidy i = 0; j = 0; x = 0; y = 0; m = 0

/* The replicated log. Appending is one step, and fails in every term but the newest. */
byte term;
byte log[N + 1];
byte logged;
byte events[S]; /* number of entries that are events of each switch */
byte done[S];   /* number of bundles of each switch that are done according to the log */

mtype = { NEW, CLAIMED, ACCEPTED, ASKED, READY }; /* a leader's session */

typedef controller {
	bool up;
	byte lead;        /* the term that it believes it leads in; 0 if it follows */
	byte known;       /* entries of the log that it has applied */
	byte event;       /* executed, not in the log yet; 0 is none */
	byte from[S];     /* number of events before it was connected, which it did not receive */
	byte received[S]; /* last event received; it keeps those that are not in the log */
	byte taken[S];    /* last event executed */
	mtype session[S];
	byte sent[S];     /* last bundle sent */
};
controller ctl[C];

typedef device {
	byte emitted;    /* events */
	byte generation;
	byte master;     /* a controller, or NONE */
	byte marker;     /* cookie of the marker */
};
device dev[S];
byte given[S * N]; /* event that caused the executed bundle k of switch s: given[s * N + k - 1] */

mtype = { ROLE_REQUEST, READ, BUNDLE, MARK, ROLE_REPLY, MARKER };
chan down[C * S] = [1] of { mtype, byte, byte }; /* number; of BUNDLE also its event */
chan up[C * S] = [1] of { mtype, byte };
#define DOWN down[c * S + s]
#define UP up[c * S + s]

byte crashes;

inline clear(q) { do :: len(q) > 0 -> q?m,x :: else -> break od }
inline clear2(q) { do :: len(q) > 0 -> q?m,x,y :: else -> break od }

/* The mechanisms, and what replaces them when they are removed. */
#ifdef NO_FENCING
#define REFUSED false
#define POWERLESS false
#define LOWER(t) false
#else
#define REFUSED (dev[s].master != c)
#define POWERLESS (ctl[c].lead < dev[s].generation)
#define LOWER(t) (t < dev[s].generation)
#endif
#ifdef READ_BEFORE_ROLE
#define MAYREAD NEW
#define MAYCLAIM ACCEPTED /* here: the marker has been read */
#else
#define MAYREAD ACCEPTED
#define MAYCLAIM NEW
#endif
#ifdef NO_LOG_BEFORE_COMMANDS
#define RELEASED (ctl[c].known + (ctl[c].event > 0))
#else
#define RELEASED ctl[c].known
#endif
#define OF(k) (k <= ctl[c].known -> log[k - 1] : ctl[c].event)
#ifdef NO_SYNC
#define WHOLE(c, s) true
#else
#define WHOLE(c, s) (ctl[c].from[s] <= events[s]) /* it has received every event that is not in the log */
#endif
#define KEEPS(d, s) (d != c && ctl[d].up && ctl[d].from[s] <= events[s])
#ifdef NO_SURVIVOR
#define KEPT(s) true
#else
#define KEPT(s) (KEEPS(0, s) || KEEPS(1, s) || KEEPS(C - 1, s)) /* not counting c */
#endif
#define MAYSTAND (STALE || ctl[0].lead + ctl[1].lead + ctl[C - 1].lead == 0)

inline follow(c) {
	ctl[c].lead = 0; ctl[c].event = 0; ctl[c].known = 0;
	for (j : 0 .. S - 1) { ctl[c].session[j] = NEW; ctl[c].sent[j] = 0; ctl[c].taken[j] = 0 }
}

proctype Controller(byte c) {
end:	do
	:: d_step { ctl[c].up && term < TERMS && (term > 0 || c == 0) && MAYSTAND && WHOLE(c, 0) && WHOLE(c, S - 1) ->
		term++;
		say("> c%d becomes leader of term %d\n", c + 1, term);
		follow(c);
		ctl[c].lead = term;
		ctl[c].known = logged;
		for (j : 0 .. S - 1) {
#ifdef NO_BUFFER_MATCH
			ctl[c].taken[j] = ctl[c].from[j]
#else
			ctl[c].taken[j] = (ctl[c].from[j] > events[j] -> ctl[c].from[j] : events[j])
#endif
		};
		tidy
	}
	:: d_step { ctl[c].event ->
		x = ctl[c].event;
		if
		:: ctl[c].lead == term ->
			say("> c%d appends (s%d,e%d) to the log\n", c + 1, SWITCH(x) + 1, SEQ(x));
			for (i : 0 .. N - 1) {
				must(i >= logged || log[i] != x, "! at most once events: an event is in the log twice\n")
			}
			must(SEQ(x) <= events[SWITCH(x)] + 1, "! at least once events: an event is missing before this one\n");
			for (j : 0 .. S - 1) {
				must(given[j * N + logged] == 0 || given[j * N + logged] == x,
					"! total event order: a switch has executed another command than the log says\n")
			}
			log[logged] = x;
			logged++;
			events[SWITCH(x)]++;
			ctl[c].known = logged;
			ctl[c].event = 0
		:: else ->
			say("> c%d cannot append in term %d: it was deposed, and follows\n", c + 1, ctl[c].lead);
			follow(c)
		fi;
		tidy
	}
	/* The assumption: another controller has also received what this one has not logged. */
	:: d_step { ctl[c].up && crashes < CRASHES && term > 0 && (ctl[c].lead < term || term < TERMS) &&
			KEPT(0) && KEPT(S - 1) ->
		say("> c%d crashes\n", c + 1);
		crashes++;
		follow(c);
		ctl[c].up = false;
		for (i : 0 .. S - 1) { ctl[c].from[i] = 0; ctl[c].received[i] = 0; clear(up[c * S + i]) };
		tidy
	}
	:: d_step { !ctl[c].up ->
		say("> c%d restarts\n", c + 1);
		ctl[c].up = true;
		for (i : 0 .. S - 1) {
			clear2(down[c * S + i]);
			if :: dev[i].master == c -> dev[i].master = NONE :: else fi;
			ctl[c].from[i] = dev[i].emitted; ctl[c].received[i] = dev[i].emitted
		};
		tidy
	}
	od
}

/* A controller's end of the connection to a switch. */
proctype Session(byte c; byte s) {
end:	do
	:: d_step { ctl[c].up && ctl[c].received[s] < dev[s].emitted ->
		ctl[c].received[s]++;
		say("> c%d receives (s%d,e%d)\n", c + 1, s + 1, ctl[c].received[s]);
#ifdef NO_STANDBY_BUFFER
		if :: ctl[c].lead == 0 -> ctl[c].from[s] = ctl[c].received[s] :: else fi;
#endif
		tidy
	}
	:: d_step { ctl[c].lead && ctl[c].event == 0 && ctl[c].taken[s] < ctl[c].received[s] ->
		ctl[c].taken[s]++;
		ctl[c].event = s * E + ctl[c].taken[s];
		say("> c%d executes (s%d,e%d)\n", c + 1, s + 1, ctl[c].taken[s]);
		tidy
	}
	:: d_step { ctl[c].lead && ctl[c].session[s] == MAYCLAIM && !POWERLESS && nfull(DOWN) ->
		say("> c%d claims s%d in term %d\n", c + 1, s + 1, ctl[c].lead);
		DOWN!ROLE_REQUEST,ctl[c].lead,0;
		ctl[c].session[s] = CLAIMED;
		tidy
	}
	:: d_step { ctl[c].lead && ctl[c].session[s] == MAYREAD && nfull(DOWN) ->
#ifdef NO_MARKER_READ
		ctl[c].sent[s] = done[s];
		ctl[c].session[s] = READY;
#else
		say("> c%d asks s%d for its marker\n", c + 1, s + 1);
		DOWN!READ,0,0;
		ctl[c].session[s] = ASKED;
#endif
		tidy
	}
	:: d_step { ctl[c].up && nempty(UP) ->
		UP?m,x;
		if
		:: m == ROLE_REPLY && x == ctl[c].lead && ctl[c].session[s] == CLAIMED ->
#ifdef READ_BEFORE_ROLE
			ctl[c].session[s] = READY
#else
			ctl[c].session[s] = ACCEPTED
#endif
		:: m == MARKER && ctl[c].session[s] == ASKED ->
			say("> c%d reads from s%d's marker that bundles up to %d are done\n", c + 1, s + 1, x);
			ctl[c].sent[s] = x;
#ifdef READ_BEFORE_ROLE
			ctl[c].session[s] = ACCEPTED
#else
			ctl[c].session[s] = READY
#endif
		:: else
		fi;
		tidy
	}
	:: d_step { ctl[c].lead && ctl[c].session[s] == READY && !POWERLESS && ctl[c].sent[s] < RELEASED && nfull(DOWN) ->
		ctl[c].sent[s]++;
		x = OF(ctl[c].sent[s]);
		say("> c%d sends s%d bundle %d, of event (s%d,e%d)\n", c + 1, s + 1, ctl[c].sent[s], SWITCH(x) + 1, SEQ(x));
		DOWN!BUNDLE,ctl[c].sent[s],x;
		tidy
	}
	:: d_step { ctl[c].lead && ctl[c].session[s] == READY && ctl[c].lead == term &&
			dev[s].master == c && dev[s].marker > done[s] ->
		done[s] = dev[s].marker;
		say("> c%d logs that s%d has executed its bundles up to %d\n", c + 1, s + 1, done[s]);
		tidy
	}
	od
}

/* The switch's end. */
proctype Device(byte c; byte s) {
end:	do
	:: d_step { nempty(DOWN) && nfull(UP) ->
		DOWN?m,x,y;
		if
		:: m == ROLE_REQUEST ->
			if
			:: LOWER(x) -> say("> s%d refuses the claim of c%d in term %d\n", s + 1, c + 1, x)
			:: else ->
				say("> s%d accepts c%d as its master in term %d\n", s + 1, c + 1, x);
				dev[s].generation = x;
				dev[s].master = c;
				if :: ctl[c].up -> UP!ROLE_REPLY,x :: else fi
			fi
		:: m == READ -> if :: ctl[c].up -> UP!MARKER,dev[s].marker :: else fi
		:: m == MARK -> if :: REFUSED :: else -> dev[s].marker = x; say("> s%d sets its marker to %d\n", s + 1, x) fi
		:: else -> /* BUNDLE */
			if
			:: REFUSED -> say("> s%d refuses bundle %d of c%d, which is not its master\n", s + 1, x, c + 1)
			:: else ->
				say("> s%d executes bundle %d, of event (s%d,e%d)\n", s + 1, x, SWITCH(y) + 1, SEQ(y));
				must(given[s * N + x - 1] == 0, "! at most once commands: a switch executes a command twice\n");
				must(x == 1 || given[s * N + x - 2],
					"! at least once commands: a command is missing before this one\n");
				must(x > logged || log[x - 1] == y,
					"! total event order: a switch executes another command than the log says\n");
				given[s * N + x - 1] = y;
#ifdef MARKER_OUTSIDE_BUNDLE
				if :: ctl[c].up -> DOWN!MARK,x,0 :: else fi /* sent after the bundle; lost if the controller crashes */
#else
				dev[s].marker = x
#endif
			fi
		fi;
		tidy
	}
	:: d_step { !ctl[c].up && nempty(DOWN) -> /* messages in flight are lost */
		say("> s%d detects that its connection to c%d is broken\n", s + 1, c + 1);
		clear2(DOWN);
		tidy
	}
	:: d_step { c == 0 && dev[s].emitted < E && term > 0 ->
		dev[s].emitted++;
		say("> s%d sends (s%d,e%d) to every controller\n", s + 1, s + 1, dev[s].emitted);
		tidy
	}
	od
}

init {
	atomic {
		for (i : 0 .. S - 1) { dev[i].master = NONE }
		for (i : 0 .. C - 1) {
			ctl[i].up = true;
			for (j : 0 .. S - 1) { ctl[i].session[j] = NEW }
			run Controller(i);
			for (j : 0 .. S - 1) { run Session(i, j); run Device(i, j) }
		};
		tidy
	}
	timeout ->
	must(logged == N, "! at least once events: an event is never processed\n");
	for (j : 0 .. S - 1) {
		must(given[j * N + N - 1], "! at least once commands: a command is never executed\n");
		must(done[j] == N, "! at least once commands: a command is never known to be executed\n")
	}
end:	false
}

#ifdef LIVENESS
/* If there are no more faults, everything is done eventually. */
ltl recovery { <> (logged == N && done[0] == N && done[S - 1] == N) }
#endif
