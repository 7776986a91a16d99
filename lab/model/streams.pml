/* Streams between groups: docs/design/streams.md. What is left out, and why that is sound: docs/design/model.md.
 *
 * Three groups with one actor each. g1 and g2 send to g3, and g3 answers g1, so g1 and g3 form a cycle. A group is
 * its committed state and what its leader has executed on top of it. A step is atomic: a leader executes or commits
 * one transaction, sends a message or receives one. Between any two steps a leader may crash or be deposed. Every
 * #ifdef removes one mechanism. Spin must find an error then. */

#ifndef E1
#define E1 1 /* events of g1; each sends a request to g3, which answers */
#endif
#ifndef E2
#define E2 1 /* events of g2; each sends an item to g3 */
#endif
#ifndef E3
#define E3 0 /* events of g3; each sends a request to g1, which answers */
#endif
#ifndef CRASHES
#define CRASHES 2 /* changes of leader in all groups together */
#endif
#ifndef BREAKS
#define BREAKS 1 /* of connections between live leaders */
#endif
#ifndef STALE
#define STALE 1 /* what a former leader has sent, or still sends because it does not know its successor, may arrive */
#endif
#ifndef WINDOW
#define WINDOW 1 /* transactions of a group that are executed and not committed */
#endif
#ifndef ROOM
#define ROOM 1 /* items in flight on a connection */
#endif
#ifndef SOFT
#define SOFT 2 /* items in an outbox, from which on the group takes no events */
#endif
#ifndef HARD
#define HARD 3 /* items in an outbox, from which on a handler that pushes another one fails */
#endif

#define G 3
#define N (E1 + E2 + E3)
#define EVENTS(g) (g == 0 -> E1 : (g == 1 -> E2 : E3))
#define TO(s) (s == 2 -> 0 : 2) /* a stream has the number of its sender */
#define ANSWERED(s) (s != 1)
#define OUTBOX(g) (str[g].xpushed - str[g].popped)

#define say printf
#define must(ok, property) if :: ok :: else -> say(property); assert(false) fi

byte i, k, x, y, z; /* scratch, within a step */
mtype m;
#define tidy i = 0; k = 0; x = 0; y = 0; z = 0; m = 0

mtype = { NOTHING, REQUEST, ANSWER, FAILURE }; /* what a transaction pushes */

typedef group {
	byte term;     /* of the leader, and content of the items that it pushes: a later leader may push other ones */
	byte events;   /* committed */
	byte xevents;  /* executed */
	byte failures; /* of handlers, at the hard bound; committed */
};
group grp[G];
/* Executed transactions that are not committed: the stream that the input came on (NONE: it is an event of the group),
 * number, place in the stream and content of the item, and what the transaction pushes. Number and place differ only
 * in a variant. */
chan pending[G] = [WINDOW] of { byte, byte, byte, byte, mtype };
#define NONE 255

typedef stream {
	/* Committed by the sender. */
	byte pushed;     /* last item */
	byte popped;     /* last item that it has removed from the outbox */
	byte item[N];    /* content: term of the leader that pushed it, and whether it is an answer */
#ifdef RESTART_NUMBERS
	byte shift;      /* items before the numbers began anew */
#endif
	/* Committed by the receiver. */
	byte watermark;
	byte effects;    /* items whose effects are committed */
	/* Executed. */
	byte xpushed;
	byte xwatermark;
	/* Only the leaders know this. */
	byte sent;       /* last item sent on this connection */
	bool owes;       /* the receiver has to send an acknowledgement */
	bool broken;     /* the sender has to learn that the connection broke, or that the receiver has a new leader */
	/* The last items and acknowledgements that former leaders send, or have sent, and that may still arrive. */
	byte oldpushed;
	byte oldwatermark;
};
stream str[G];
chan items[G] = [ROOM] of { byte, byte }; /* number, place */
chan acks[G] = [1] of { byte };
byte crashes, breaks;

/* The mechanisms, and what replaces them when they are removed. */
#ifdef SEND_BEFORE_COMMIT
#define RELEASED str[s].xpushed
#define CONTENT(s, n) (n > str[s].pushed -> grp[s].term * 2 : str[s].item[n - 1])
#else
#define RELEASED str[s].pushed
#define CONTENT(s, n) str[s].item[n - 1]
#endif
#ifdef ACK_BEFORE_COMMIT
#define ACKNOWLEDGED str[s].xwatermark
#else
#define ACKNOWLEDGED str[s].watermark
#endif
#ifdef RESTART_NUMBERS
#define SHIFT(s) str[s].shift
#else
#define SHIFT(s) 0
#endif
#ifdef NO_DEDUPE
#define HAD(n) false
#elif defined(DEDUPE_WHAT_IS_COMMITTED)
#define HAD(n) (n <= str[s].watermark)
#else
#define HAD(n) (n <= str[s].xwatermark)
#endif
#ifdef ACCEPT_GAP
#define GAP(n) false
#else
#define GAP(n) (n > str[s].xwatermark + 1)
#endif
#ifdef SOFT_STOPS_ITEMS
#define MAYTAKE (OUTBOX(TO(s)) < SOFT)
#else
#define MAYTAKE true
#endif
#ifdef NO_RESEND_AFTER_BREAK
#define NOTICES false
#else
#define NOTICES true
#endif
#ifdef NO_RESEND_TO_NEW_LEADER
#define NOTICES_LEADER false
#else
#define NOTICES_LEADER true
#endif

/* A connection ends. What is in flight on it is lost. */
inline cut(s) {
	do :: len(items[s]) > 0 -> items[s]?x,y :: else -> break od;
	do :: len(acks[s]) > 0 -> acks[s]?x :: else -> break od;
	str[s].owes = false
}

/* A connection breaks. The sender learns this later, unless it has nothing to send again. Until then it sends on. */
inline disconnect(s, noticed) {
	cut(s);
	str[s].broken = noticed && str[s].sent > str[s].popped
}

/* What former leaders send has no effect any more if it is known. */
inline forget(s) {
	if :: str[s].oldpushed <= str[s].watermark -> str[s].oldpushed = 0 :: else fi;
	if :: str[s].oldwatermark <= str[s].popped -> str[s].oldwatermark = 0 :: else fi
}

inline push(g, what) {
	str[g].pushed++;
	str[g].item[str[g].pushed - 1] = grp[g].term * 2 + (what == ANSWER)
}

proctype Group(byte g) {
end:	do
	:: d_step { grp[g].xevents < EVENTS(g) && OUTBOX(g) < SOFT && nfull(pending[g]) ->
		grp[g].xevents++;
		str[g].xpushed++;
		say("> g%d executes its event %d, which pushes item %d\n", g + 1, grp[g].xevents, str[g].xpushed);
		pending[g]!NONE,0,0,0,REQUEST;
		tidy
	}
	:: d_step { nempty(pending[g]) ->
		pending[g]?i,x,y,z,m;
#ifndef OUTBOX_APART
		if :: m == REQUEST || m == ANSWER -> push(g, m) :: else fi;
#endif
		if
		:: i == NONE ->
			grp[g].events++;
			say("> g%d commits its event %d\n", g + 1, grp[g].events)
		:: else ->
			if
			:: m == ANSWER -> say("> g%d commits item %d of g%d, with an answer\n", g + 1, y, i + 1)
			:: m == FAILURE ->
				grp[g].failures++;
				say("> g%d commits item %d of g%d, and that the handler failed\n", g + 1, y, i + 1)
			:: else -> say("> g%d commits item %d of g%d\n", g + 1, y, i + 1)
			fi;
			must(y <= str[i].pushed, "! only what is committed: the sender of this item has not committed it\n");
			must(y > str[i].effects, "! each item once: the receiver has committed this item before\n");
			must(y == str[i].effects + 1, "! no gap: the receiver lacks an item before this one\n");
			must(z == str[i].item[y - 1],
				"! only what is committed: the sender has committed another item with this number\n");
			str[i].item[y - 1] = 0; /* nothing depends on it any more */
			str[i].effects++;
#ifndef WATERMARK_APART
			str[i].watermark = x;
			str[i].owes = true;
			forget(i)
#endif
		fi;
		tidy
	}
#ifdef OUTBOX_APART
	:: d_step { empty(pending[g]) && str[g].pushed < str[g].xpushed ->
		push(g, (g == 2 -> ANSWER : REQUEST));
		say("> g%d commits item %d, which it has pushed\n", g + 1, str[g].pushed);
		tidy
	}
#endif
	/* The next leader may commit what this one has proposed. Here, it has then been committed before this step. */
	:: d_step { crashes < CRASHES ->
		say("> g%d loses its leader, and what is not committed\n", g + 1);
		crashes++;
		grp[g].term++;
		grp[g].xevents = grp[g].events;
		do :: len(pending[g]) > 0 -> pending[g]?i,x,y,z,m :: else -> break od;
#if STALE
		str[g].oldpushed = str[g].pushed;
#endif
		forget(g);
		cut(g);
		str[g].broken = false;
		str[g].xpushed = str[g].pushed;
#ifdef NO_RESEND_BY_NEW_LEADER
		str[g].sent = str[g].pushed;
#else
		str[g].sent = str[g].popped;
#endif
		for (i : 0 .. G - 1) {
			if
			:: TO(i) == g ->
#if STALE
				str[i].oldwatermark = str[i].watermark;
#endif
				forget(i);
				disconnect(i, NOTICES_LEADER);
				str[i].xwatermark = str[i].watermark
			:: else
			fi
		};
		tidy
	}
	od
}

/* The sender commits that the items up to k are acknowledged, and removes them from its outbox. */
inline pop(s) {
	say("> g%d pops its items up to %d\n", s + 1, k);
	must(k <= str[s].pushed, "! only what is committed: the sender has not committed what is acknowledged\n");
	must(k <= str[s].effects, "! popped only when received: the receiver has not committed this item\n");
	str[s].popped = k;
	if :: str[s].sent < k -> str[s].sent = k :: else fi;
#ifdef RESTART_NUMBERS
	if :: k == str[s].xpushed -> str[s].shift = k :: else fi;
#endif
	forget(s)
}

/* The sender's end of a stream. */
proctype Sender(byte s) {
end:	do
	:: d_step { str[s].sent < RELEASED && nfull(items[s]) ->
		str[s].sent++;
		k = str[s].sent;
		if
		:: SHIFT(s) -> say("> g%d sends item %d with number %d\n", s + 1, k, k - SHIFT(s))
		:: else -> say("> g%d sends item %d\n", s + 1, k)
		fi;
		items[s]!k - SHIFT(s),k;
#ifdef POP_ON_SEND
		pop(s);
#endif
		tidy
	}
	:: d_step { nempty(acks[s]) ->
		acks[s]?k;
		k = k + SHIFT(s);
		if
#ifdef RESTART_NUMBERS
		:: k > str[s].pushed -> say("> g%d refuses an acknowledgement of what it has not sent\n", s + 1)
#endif
		:: k > str[s].popped -> pop(s)
		:: else -> say("> g%d has already popped up to item %d\n", s + 1, k)
		fi;
		tidy
	}
	:: d_step { str[s].broken ->
		say("> g%d connects to g%d again, and sends all items that it still has\n", s + 1, TO(s) + 1);
		cut(s);
		str[s].broken = false;
		str[s].sent = str[s].popped;
		tidy
	}
	:: d_step { str[s].oldwatermark ->
		say("> g%d receives an acknowledgement of a former leader of g%d\n", s + 1, TO(s) + 1);
		k = str[s].oldwatermark;
		pop(s);
		tidy
	}
	:: d_step { str[s].oldwatermark -> str[s].oldwatermark = 0 } /* it is lost */
	od
}

/* The receiver's leader receives the item in place y, which has the number x. */
inline take(s) {
	if
	:: HAD(x) ->
		say("> g%d drops item %d of g%d\n", TO(s) + 1, y, s + 1);
#ifndef NO_ACK_OF_DUPLICATES
		if :: x <= str[s].watermark -> str[s].owes = true :: else fi
#endif
	:: GAP(x) ->
		say("> g%d refuses item %d of g%d, because one before it is missing, and closes the connection\n",
			TO(s) + 1, y, s + 1);
		disconnect(s, NOTICES)
	:: else ->
		say("> g%d receives item %d of g%d, and executes it\n", TO(s) + 1, y, s + 1);
		str[s].xwatermark = x;
		z = CONTENT(s, y);
#ifdef ACK_BEFORE_COMMIT
		str[s].owes = true;
#endif
		if
		:: z & 1 || !ANSWERED(s) -> m = NOTHING
		:: else ->
			if
			:: OUTBOX(TO(s)) >= HARD -> m = FAILURE
			:: else -> m = ANSWER; str[TO(s)].xpushed++
			fi
		fi;
		pending[TO(s)]!s,x,y,z,m
	fi
}

/* The receiver's end. */
proctype Receiver(byte s) {
end:	do
	:: d_step { nempty(items[s]) && nfull(pending[TO(s)]) && MAYTAKE ->
		items[s]?x,y;
		take(s);
		tidy
	}
	:: d_step { str[s].owes && nfull(acks[s]) ->
		say("> g%d acknowledges the items of g%d up to %d\n", TO(s) + 1, s + 1, ACKNOWLEDGED);
		acks[s]!ACKNOWLEDGED;
		str[s].owes = false;
		tidy
	}
	:: d_step { breaks < BREAKS && str[s].sent > str[s].popped ->
		say("> the connection of g%d and g%d breaks\n", s + 1, TO(s) + 1);
		breaks++;
		disconnect(s, NOTICES);
		tidy
	}
	/* Any other item of a former leader is dropped, or closes the connection to the former leader. */
	:: d_step { str[s].xwatermark < str[s].oldpushed && nfull(pending[TO(s)]) && MAYTAKE ->
		x = str[s].xwatermark + 1;
		y = x;
		say("> an item of a former leader of g%d arrives\n", s + 1);
		take(s);
		tidy
	}
	:: d_step { str[s].oldpushed -> str[s].oldpushed = 0 } /* they are lost */
#ifdef WATERMARK_APART
	:: d_step { str[s].watermark < str[s].effects && empty(pending[TO(s)]) ->
		say("> g%d commits the watermark %d of g%d\n", TO(s) + 1, str[s].effects, s + 1);
		str[s].watermark = str[s].effects;
		str[s].owes = true;
		forget(s);
		tidy
	}
#endif
#ifdef FORGET_IDLE
	:: d_step { str[s].watermark && str[s].watermark == str[s].xwatermark && !str[s].owes &&
			empty(items[s]) && empty(acks[s]) ->
		say("> g%d forgets the watermark of g%d, because the stream is idle\n", TO(s) + 1, s + 1);
		str[s].watermark = 0;
		str[s].xwatermark = 0;
		tidy
	}
#endif
	od
}

init {
	atomic {
		for (i : 0 .. G - 1) {
			grp[i].term = 1;
			run Group(i);
			run Sender(i);
			run Receiver(i)
		};
		tidy
	}
	timeout ->
	for (i : 0 .. G - 1) {
		must(str[i].effects == str[i].pushed, "! everything sent is received: an item is never received\n");
		must(str[i].popped == str[i].pushed, "! outboxes become empty: an item is never popped\n");
		must(grp[i].events == EVENTS(i), "! no deadlock: an event is never taken\n")
	};
	must(str[0].pushed + grp[0].failures == E1 + E3 && str[2].pushed + grp[2].failures == E1 + E3,
		"! effects and items together: an item that a transaction pushed is never sent\n");
end:	false
}

#ifdef LIVENESS
/* If there are no more faults, everything is done eventually. */
ltl drained {
	<> (grp[0].events == E1 && grp[1].events == E2 && grp[2].events == E3 &&
		str[0].popped == str[0].pushed && str[1].popped == str[1].pushed && str[2].popped == str[2].pushed &&
		str[0].effects == str[0].pushed && str[1].effects == str[1].pushed && str[2].effects == str[2].pushed)
}
#endif
