/* Moves of an actor between groups: docs/design/groups.md. What is left out, and why that is sound:
 * docs/design/model.md.
 *
 * The actor s stays in g1. For each event it sends a message to the actor a, which writes its cell and answers. a lives
 * in g2 first, and moves to any of three groups, also to g1 and back. What groups send to each other on their own
 * streams, the pieces of a, is not lost: streams.pml shows that. What s and a send to each other is sent until it is
 * acknowledged, to where the sender believes that the other one lives, and it may come late, at any group. A step is
 * atomic, and committed. Between any two steps a leader may be lost, with what only it knows. Every #ifdef removes one
 * mechanism. Spin must find an error then. */

#ifndef E
#define E 2 /* events of g1 */
#endif
#ifndef MOVES
#define MOVES 2 /* that begin */
#endif
#ifndef CALLEDOFF
#define CALLEDOFF 1 /* of them, before a departs */
#endif
#ifndef CRASHES
#define CRASHES 1 /* changes of leader in all groups together */
#endif
#ifndef STALE
#define STALE 1 /* what was sent may come late, and again */
#endif

#define G 3
#define NOBODY 3
#define SAME 255
#define CH(f, t) (f * 2 + (t + 2 - f) % 3) /* from one group to another */
#define OTHER(g, n) ((g + n) % 3)          /* n is 1 or 2 */

/* An assignment of a: a version, and a group. */
#define FIRST 5 /* version 1, g2 */
#define PLACE(a) (a & 3)
#define VERSION(a) (a >> 2)

/* What a writes for an event: it puts a field and deletes it by turns. 0 is no field. */
#define CELL(e) (e & 1 -> e : 0)

#define say printf
#define must(ok, property) if :: ok :: else -> say(property); assert(false) fi

byte x; /* scratch, within a step */
byte what, mark, last, taken, next;
#define tidy x = 0; what = 0; mark = 0; last = 0; taken = 0; next = 0

mtype = { COPY, CANCEL, REST }; /* pieces */

typedef group {
	/* Committed. */
	byte own;       /* newest assignment in the log; 0 if a has never moved from here or to here */
	byte leaving;   /* to which group a begins to move */
	bool lives;     /* a does, with its state: */
	byte cell;
	byte watermark; /* of the messages */
	byte pushed;    /* answers in its outbox */
	byte popped;
	/* Only the leader knows this. */
	byte view;        /* directory as its controller has it */
	bool unpublished; /* the directory is to be told that a has arrived */
	bool copied;      /* the cell is sent */
	bool changed;     /* since then */
#ifdef NO_RESUME
	bool resumes;
#endif
#ifdef DEPART_APART
	bool resting;     /* what is to follow */
	byte rcell, rwatermark, rpushed, rpopped;
#endif
};
group grp[G];
chan pieces[6] = [2] of { mtype, byte, byte, byte, byte, byte };
byte arriving[6]; /* what is copied and has not arrived: 0 is nothing, otherwise 1 + the field */
byte directory;   /* assignment */
#ifdef OLDER_ASSIGNMENT
byte older;       /* one that it was told before */
#endif

/* s, committed by g1. */
byte events;
byte pushed, popped; /* messages in its outbox */
byte watermark;      /* of the answers */
byte answered;       /* the event of the last answer */

byte message[E]; /* the event of each message, in the order of their numbers */
byte answer[E];  /* likewise */
byte received;   /* messages that a has received */
byte handled;    /* the last event that a has handled */
byte answers;    /* that a has pushed */
byte moves, calledoff, crashes;
bool late;       /* what was sent may come late */

/* The mechanisms, and what replaces them when they are removed. */
#ifdef DIRECTORY_BEFORE_LOG
#define WHERE(g) grp[g].view
#else
#define WHERE(g) (VERSION(grp[g].own) >= VERSION(grp[g].view) -> grp[g].own : grp[g].view)
#endif
#define AT(g) PLACE(WHERE(g)) /* where the leader of g believes that a lives */
#ifdef ACCEPT_ELSEWHERE
#define ACCEPTS(g) true
#else
#define ACCEPTS(g) (AT(g) == g)
#endif
#ifdef SHORTCUT
#define DIRECT(p, q) true
#else
#define DIRECT(p, q) (p == q)
#endif
#ifdef NO_NEW_VERSION
#define NEXT(g) (WHERE(g) - PLACE(WHERE(g)) + grp[g].leaving)
#else
#define NEXT(g) (((VERSION(WHERE(g)) + 1) << 2) + grp[g].leaving)
#endif
#ifdef DEPART_BEFORE_COPIED
#define COPIED(g) true
#else
#define COPIED(g) (grp[g].copied && empty(pieces[CH(g, grp[g].leaving)]))
#endif
#ifdef FORGET_CHANGES
#define CHANGED(g) false
#else
#define CHANGED(g) grp[g].changed
#endif
#ifdef ONE_ORIGIN
#define ARRIVING(f, t) arriving[t]
#else
#define ARRIVING(f, t) arriving[CH(f, t)]
#endif
#ifdef NO_RESUME
#define RESUMES(g) grp[g].resumes
#else
#define RESUMES(g) true
#endif
#ifdef PUBLISHED_ON_DEPARTURE
#define PUBLISHES(g) true
#else
#define PUBLISHES(g) grp[g].lives
#endif

/* s gets the answer to an event. */
inline hear(e) {
	must(e == answered + 1, "! in order: an answer overtakes an earlier one\n");
	answered = e
}

/* a handles the message of an event, in group g. */
inline handle(g, e) {
	must(grp[g].lives, "! one owner: the group handles a message of an actor that does not live there\n");
	must(e > handled, "! each item once: the actor has handled this message before\n");
	must(e == handled + 1, "! in order: a message overtakes an earlier one\n");
	must(grp[g].cell == CELL(handled), "! it moves whole: the cell has not what the actor has written\n");
	handled = e;
	grp[g].cell = CELL(e);
	grp[g].changed = grp[g].copied;
	if
	:: g == 0 && DIRECT(grp[g].pushed, grp[g].popped) -> hear(e)
	:: else ->
		answers++;
		answer[answers - 1] = e;
		grp[g].pushed++;
#ifdef RESTART_NUMBERS
		answer[grp[g].pushed - 1] = e
#endif
	fi
}

/* a begins to move. */
inline leave(to) {
	say("> g%d logs that the actor begins to move to g%d\n", g + 1, to + 1);
	moves++;
	grp[g].leaving = to;
#ifdef NO_RESUME
	grp[g].resumes = true
#endif
}

inline endCopy() {
	grp[g].copied = false;
	grp[g].changed = false
}

/* The state of a leaves the group. */
inline clean() {
	grp[g].lives = false;
#ifndef KEEP_CELLS
	grp[g].cell = 0;
#endif
	grp[g].watermark = 0;
	grp[g].pushed = 0;
	grp[g].popped = 0;
	grp[g].leaving = NOBODY;
	endCopy()
}

/* What follows when a departs: what has changed, and its ends of streams. */
inline rest() {
	what = (CHANGED(g) -> grp[g].cell : SAME);
	mark = grp[g].watermark;
	last = grp[g].pushed;
	taken = grp[g].popped;
#ifdef FORGET_WATERMARK
	mark = 0;
#endif
#ifdef FORGET_OUTBOX
	taken = last;
#endif
#ifdef RESTART_NUMBERS
	if :: last == taken -> last = 0; taken = 0 :: else fi
#endif
}

/* a arrives with the last piece. */
inline arrive(f) {
	say("> g%d commits the last piece: the actor lives there, as version %d\n", g + 1, VERSION(next));
	must(!grp[OTHER(g, 1)].lives && !grp[OTHER(g, 2)].lives, "! one owner: the actor lives in two groups\n");
	if
	:: what != SAME -> grp[g].cell = what
	:: what == SAME && ARRIVING(f, g) != 0 -> grp[g].cell = ARRIVING(f, g) - 1
	:: else
	fi;
	must(grp[g].cell == CELL(handled), "! it moves whole: the cell has not what the actor has written\n");
	ARRIVING(f, g) = 0;
	grp[g].own = next;
	grp[g].lives = true;
	grp[g].watermark = mark;
	grp[g].pushed = last;
	grp[g].popped = taken;
#ifdef PUBLISHED_ON_DEPARTURE
	skip
#else
	grp[g].unpublished = true
#endif
}

/* A piece comes from another group. */
inline take(f) {
	pieces[CH(f, g)]?m,what,mark,last,taken,next;
	if
	:: m == COPY ->
		say("> g%d commits a copy of the actor's cell, from g%d\n", g + 1, f + 1);
#ifdef KEEP_EARLIER_COPY
		if :: what -> ARRIVING(f, g) = what + 1 :: else fi
#else
		ARRIVING(f, g) = (what -> what + 1 : 0)
#endif
	:: m == CANCEL ->
		say("> g%d commits that the move from g%d is called off\n", g + 1, f + 1);
		ARRIVING(f, g) = 0
	:: m == REST -> arrive(f)
	fi
}

/* The leader of g is lost. The next one may be at a controller whose directory is behind. */
inline crash() {
	crashes++;
	endCopy();
#ifdef NO_RESUME
	grp[g].resumes = false;
#endif
#ifdef DEPART_APART
	grp[g].resting = false;
#endif
#ifdef NO_REPUBLISH
	grp[g].unpublished = false
#else
	grp[g].unpublished = (grp[g].own != 0 && PLACE(grp[g].own) == g)
#endif
}

proctype Group(byte g) {
	mtype m;
end:	do
	:: d_step { g == 0 && events < E ->
		events++;
		if
		:: AT(0) == 0 && DIRECT(pushed, popped) ->
			say("> g1 commits event %d, which the actor handles in the same transaction\n", events);
			handle(0, events)
		:: else ->
			pushed++;
			message[pushed - 1] = events;
			say("> g1 commits event %d, and with it message %d for the actor\n", events, pushed)
		fi
	}
	/* Messages. */
	:: d_step { ACCEPTS(g) && grp[g].watermark < pushed && (late || AT(0) == g && grp[g].watermark >= popped) ->
		x = grp[g].watermark + 1;
		if
		:: AT(0) == g && x > popped -> say("> g%d commits message %d, which g1 has sent to it\n", g + 1, x)
		:: else -> say("> g%d commits message %d, which comes late\n", g + 1, x)
		fi;
		grp[g].watermark = x;
		received = x;
		x = message[x - 1];
		handle(g, x);
		tidy
	}
	:: d_step { AT(g) == g && AT(0) == g && grp[g].watermark > popped ->
		popped = grp[g].watermark;
		say("> g1 pops its messages up to %d, which g%d acknowledges\n", popped, g + 1);
		must(popped <= received, "! popped only when received: the actor has not received this message\n")
	}
	/* Answers. */
	:: d_step { AT(g) == g && watermark < grp[g].pushed && watermark >= grp[g].popped ->
		watermark++;
		say("> g1 commits answer %d, which g%d has sent\n", watermark, g + 1);
		hear(answer[watermark - 1])
	}
	:: d_step { AT(g) == g && watermark > grp[g].popped && watermark <= grp[g].pushed ->
		grp[g].popped = watermark;
		say("> g%d pops the answers up to %d\n", g + 1, watermark)
	}
	/* From the group in which a lives. */
	:: d_step { AT(g) == g && grp[g].leaving == NOBODY && moves < MOVES -> leave(OTHER(g, 1)) }
	:: d_step { AT(g) == g && grp[g].leaving == NOBODY && moves < MOVES -> leave(OTHER(g, 2)) }
	:: d_step { grp[g].leaving != NOBODY && calledoff < CALLEDOFF && nfull(pieces[CH(g, grp[g].leaving)]) ->
		say("> g%d logs that the move is called off\n", g + 1);
		calledoff++;
#ifndef NO_CANCEL
		pieces[CH(g, grp[g].leaving)]!CANCEL,0,0,0,0,0;
#endif
		grp[g].leaving = NOBODY;
		endCopy()
	}
	:: d_step { grp[g].leaving != NOBODY && RESUMES(g) && !grp[g].copied && nfull(pieces[CH(g, grp[g].leaving)]) ->
		say("> g%d commits a copy of the actor's cell, for g%d\n", g + 1, grp[g].leaving + 1);
#ifdef ARRIVE_WITH_COPY
		rest();
		next = NEXT(g);
		pieces[CH(g, grp[g].leaving)]!REST,grp[g].cell,mark,last,taken,next;
#else
		pieces[CH(g, grp[g].leaving)]!COPY,grp[g].cell,0,0,0,0;
#endif
		grp[g].copied = true;
		tidy
	}
	:: d_step { grp[g].leaving != NOBODY && RESUMES(g) && COPIED(g) && nfull(pieces[CH(g, grp[g].leaving)]) ->
		next = NEXT(g);
		say("> g%d logs that the actor departs to g%d, as version %d\n", g + 1, grp[g].leaving + 1, VERSION(next));
		rest();
#ifdef DEPART_APART
		grp[g].resting = true;
		grp[g].rcell = what;
		grp[g].rwatermark = mark;
		grp[g].rpushed = last;
		grp[g].rpopped = taken;
#elif !defined(ARRIVE_WITH_COPY)
		pieces[CH(g, grp[g].leaving)]!REST,what,mark,last,taken,next;
#endif
		grp[g].own = next;
#ifdef PUBLISHED_ON_DEPARTURE
		grp[g].unpublished = true;
#endif
		clean();
		tidy
	}
#ifdef DEPART_APART
	:: d_step { grp[g].resting && nfull(pieces[CH(g, PLACE(grp[g].own))]) ->
		say("> g%d commits what follows of the actor\n", g + 1);
		pieces[CH(g, PLACE(grp[g].own))]!REST,grp[g].rcell,grp[g].rwatermark,grp[g].rpushed,grp[g].rpopped,grp[g].own;
		grp[g].resting = false;
		grp[g].rcell = 0;
		grp[g].rwatermark = 0;
		grp[g].rpushed = 0;
		grp[g].rpopped = 0
	}
#endif
	/* To the other group. */
	:: d_step { nempty(pieces[CH(OTHER(g, 1), g)]) -> take(OTHER(g, 1)); m = 0; tidy }
	:: d_step { nempty(pieces[CH(OTHER(g, 2), g)]) -> take(OTHER(g, 2)); m = 0; tidy }
	/* The directory. It takes only what is newer, so what it is told again has no effect. */
	:: d_step { grp[g].unpublished && PUBLISHES(g) && VERSION(grp[g].own) > VERSION(directory) ->
		say("> g%d tells the directory that version %d of the actor lives in g%d\n", g + 1, VERSION(grp[g].own),
			PLACE(grp[g].own) + 1);
#ifdef OLDER_ASSIGNMENT
		older = directory;
#endif
		directory = grp[g].own
	}
	:: d_step { grp[g].view != directory ->
		grp[g].view = directory;
		say("> g%d learns that the directory has version %d\n", g + 1, VERSION(directory));
		if :: VERSION(directory) >= VERSION(grp[g].own) -> grp[g].unpublished = false :: else fi
	}
	:: d_step { crashes < CRASHES ->
		say("> g%d loses its leader\n", g + 1);
		crash()
	}
	:: d_step { crashes < CRASHES && grp[g].view != FIRST ->
		say("> g%d loses its leader; the next one has an older directory\n", g + 1);
		grp[g].view = FIRST;
		crash()
	}
	od
}

/* What was sent comes late to g1: the next answer, since another one is dropped, and acknowledgements. */
proctype Network() {
end:	do
	:: d_step { late && watermark < answers ->
		watermark++;
		say("> g1 commits answer %d, which comes late\n", watermark);
		hear(answer[watermark - 1])
	}
	:: d_step { late && popped < received ->
		popped = received;
		say("> g1 pops its messages up to %d, whose acknowledgement comes late\n", popped)
	}
#ifdef OLDER_ASSIGNMENT
	:: d_step { late && older ->
		say("> the directory is told version %d again\n", VERSION(older));
		directory = older;
		older = 0
	}
#endif
	:: d_step { late -> late = false } /* no more */
	od
}

init {
	atomic {
		late = STALE;
		directory = FIRST;
		grp[1].lives = true;
		for (x : 0 .. G - 1) {
			grp[x].view = FIRST;
			grp[x].leaving = NOBODY;
			run Group(x)
		};
		run Network();
		tidy
	}
	timeout ->
	must(grp[0].lives || grp[1].lives || grp[2].lives, "! each move ends: the actor lives in no group\n");
	must(handled == E, "! everything sent is received: the actor lacks a message\n");
	must(answered == E, "! everything sent is received: an answer is missing\n");
	must(popped == pushed, "! outboxes become empty: a message is never popped\n");
	for (x : 0 .. G - 1) {
		must(grp[x].popped == grp[x].pushed, "! outboxes become empty: an answer is never popped\n");
		must(grp[x].leaving == NOBODY, "! each move ends: the actor begins to move, and does not depart\n");
		must(!grp[x].lives || AT(x) == x && PLACE(directory) == x,
			"! each move ends: the directory does not know where the actor lives\n")
	};
	for (x : 0 .. 5) {
		must(arriving[x] == 0, "! each move ends: what was copied of the actor is left in a group\n")
	};
end:	false
}
