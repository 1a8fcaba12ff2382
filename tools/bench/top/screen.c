/* SPDX-License-Identifier: MIT
 *
 * bn-bench top on a terminal, by ncurses: colours where there are some, keys, folding, any size of the window.
 * The terminal is as it was before when the user quits or a signal ends the program. Only this file includes
 * ncurses.h.
 */
#define _GNU_SOURCE
#define NCURSES_WIDECHAR 1
#include <ncurses.h>
#include <stdlib.h>
#include <term.h>
#undef columns /* term.h has macros of such names */
#include <unistd.h>

#include "base/clock.h"
#include "tools/bench/top/top.h"

struct screen {
    struct bn_top *top;
    bool has_colors, shows_help;
    size_t cursor, first; /* the selected row, and the first one that is shown */
    size_t page;          /* rows that fit */
    uint64_t next_ns;     /* when to refresh */
    bool ends;
};

/* ---- drawing ---- */

static const short COLORS_OF[BN_CATEGORY_COUNT] = {COLOR_CYAN, COLOR_GREEN, COLOR_YELLOW, COLOR_MAGENTA,
                                                   COLOR_BLUE};

static void start_colors(struct screen *s)
{
    s->has_colors = bn_report_color(stdout) && has_colors() && start_color() == OK;
    if (!s->has_colors) return;
    short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
    for (short c = 0; c < (short)BN_CATEGORY_COUNT; c++)
        init_pair((short)(c + 1), COLORS_OF[c], background);
}

static void draw(const struct screen *s, int y, const struct bn_top_line *line, bool selected)
{
    attr_t attributes = line->style == BN_TOP_HEAD || line->style == BN_TOP_WARNING ? A_BOLD : A_NORMAL;
    if (line->style == BN_TOP_TITLE || selected) attributes = A_REVERSE;
    short pair = s->has_colors && line->has_row && !selected ? (short)(line->category + 1) : 0;
    move(y, 0);
    attr_set(attributes, pair, NULL);
    addstr(line->text);
    if (line->style == BN_TOP_TITLE || selected)
        for (int x = getcurx(stdscr); x < (int)s->top->columns && getcury(stdscr) == y; x++)
            addch(' ');
    attr_set(A_NORMAL, 0, NULL);
    clrtoeol();
}

static void draw_help(const struct screen *s)
{
    static const char *const HELP[] = {
        "q          quit",
        "p, space   pause, and go on",
        "n, b       in a recorded profile: the next pass, and back",
        "tab        bricks, or the tree of the last pass that was copied",
        "c          the last refresh, or all since the start",
        "s          sort by time, order, critical path, slack",
        "up, down   select a row; also page up, page down, home, end",
        "left       fold the row; right: unfold it; enter: either",
        "?          this help",
        "",
        "x2         the number of threads; output: tokens whose logits were computed",
        "busy       time in passes; waiting: of all bricks, at barriers",
        "time       of a pass, mean over the threads; count: events on all threads",
        "GB/s       weights and cache that were read, by all threads together",
        "Gop/s      multiply-adds, or elements of kernels without them",
        "path       share of the critical path of the last pass",
        "slack      how much longer a task could take without making the pass longer",
        "budget     measured time / time in the document of --budget",
    };
    struct bn_top_line line = {.style = BN_TOP_PLAIN};
    for (int y = 0; y < (int)BN_ARRAY_LEN(HELP) && y + 1 < LINES; y++) {
        snprintf(line.text, sizeof line.text, "%.*s", (int)s->top->columns, HELP[y]);
        draw(s, y, &line, false);
    }
}

/* Keeps the selected row on the screen. */
static void scroll_to_cursor(struct screen *s)
{
    size_t n = s->top->rows.n;
    if (s->cursor >= n) s->cursor = n > 0 ? n - 1 : 0;
    if (s->cursor < s->first) s->first = s->cursor;
    if (s->page > 0 && s->cursor >= s->first + s->page) s->first = s->cursor - s->page + 1;
    if (s->page > 0 && n > s->page && s->first > n - s->page) s->first = n - s->page;
    if (n <= s->page) s->first = 0;
}

static void draw_tree(struct screen *s)
{
    struct bn_top_line line;
    int y = 0;
    for (; y < (int)BN_TOP_HEAD_LINES && y < LINES; y++) {
        bn_top_put_line(&line, s->top, (size_t)y);
        draw(s, y, &line, false);
    }
    s->page = LINES > y + 1 ? (size_t)(LINES - y - 1) : 0;
    scroll_to_cursor(s);
    for (size_t i = s->first; i < s->first + s->page && i < s->top->rows.n; i++) {
        bn_top_put_line(&line, s->top, BN_TOP_HEAD_LINES + i);
        draw(s, y++, &line, i == s->cursor);
    }
}

static void redraw(struct screen *s)
{
    struct bn_top_line keys;
    /* The last column stays free: some terminals scroll when the last cell of the screen is written. */
    s->top->columns = COLS > 1 ? bn_min_size((size_t)COLS - 1, 200) : 1;
    erase();
    if (s->shows_help)
        draw_help(s);
    else
        draw_tree(s);
    bn_top_put_line(&keys, s->top, BN_TOP_KEYS_LINE);
    if (LINES > 1) draw(s, LINES - 1, &keys, false);
    refresh();
}

/* ---- keys ---- */

/* Folds a row, unfolds it, or either. */
enum fold { FOLD, UNFOLD, EITHER };

static void fold(struct screen *s, enum fold how)
{
    if (s->cursor >= s->top->rows.n) return;
    const struct bn_top_row *row = &s->top->rows.list[s->cursor];
    if (row->has_children && (how == EITHER || (how == UNFOLD) == row->is_folded)) {
        bn_top_toggle(&s->top->view, row->key);
    } else if (how == FOLD) { /* a leaf: to the row around it */
        unsigned depth = row->depth;
        while (s->cursor > 0 && s->top->rows.list[s->cursor].depth >= depth)
            s->cursor--;
    }
}

static void move_cursor(struct screen *s, int key)
{
    size_t n = s->top->rows.n, page = s->page > 0 ? s->page : 1;
    if (key == KEY_UP && s->cursor > 0) s->cursor--;
    if (key == KEY_DOWN) s->cursor++;
    if (key == KEY_PPAGE) s->cursor -= bn_min_size(s->cursor, page);
    if (key == KEY_NPAGE) s->cursor += page;
    if (key == KEY_HOME) s->cursor = 0;
    if (key == KEY_END) s->cursor = n;
    if (s->cursor >= n) s->cursor = n > 0 ? n - 1 : 0;
}

static bn_status press(struct screen *s, int key, bn_error *err)
{
    struct bn_top_view *view = &s->top->view;
    bool help = s->shows_help, enter = key == '\n' || key == '\r' || key == KEY_ENTER;
    s->shows_help = (key == '?' || key == 'h') && !help;
    if (key == 'q') s->ends = !help;
    if (key == 'p' || key == ' ') view->is_paused = !view->is_paused && s->top->state != BN_TOP_RECORDED;
    if (key == 's') view->sort = (enum bn_top_sort)((view->sort + 1) % BN_TOP_SORTS);
    if (key == 'c') view->since_start = !view->since_start;
    if (key == '\t') view->of_pass = !view->of_pass;
    if (key == KEY_LEFT || key == KEY_RIGHT || enter)
        fold(s, enter ? EITHER : key == KEY_LEFT ? FOLD : UNFOLD);
    move_cursor(s, key);
    bn_top_remake(s->top);
    return key == 'n' || key == 'b' ? bn_top_move(s->top, key == 'n' ? 1 : -1, err) : BN_OK;
}

/* ---- the loop ---- */

#define PATIENCE_MS 200u /* ncurses goes on waiting when a signal comes */

static bn_status step(struct screen *s, bn_error *err)
{
    uint64_t now = bn_clock_ns();
    if (now >= s->next_ns) {
        if (!s->top->view.is_paused) BN_TRY(bn_top_refresh(s->top, err));
        s->next_ns = now + (uint64_t)s->top->o->interval_ms * 1000000u;
        redraw(s);
    }
    uint64_t ms = s->next_ns > now ? (s->next_ns - now + 999999) / 1000000 : 0;
    timeout((int)(ms < PATIENCE_MS ? ms : PATIENCE_MS));
    int key = getch();
    if (key == ERR) { /* time is up, a signal came, or the terminal is gone */
        if (bn_clock_ns() < s->next_ns && bn_cli_interrupted() == 0 && !isatty(STDIN_FILENO)) s->ends = true;
        return BN_OK;
    }
    if (key != KEY_RESIZE) BN_TRY(press(s, key, err));
    redraw(s);
    return BN_OK;
}

static bool can(const char *capability)
{
    const char *sequence = tigetstr(capability);
    return sequence != NULL && sequence != (char *)-1;
}

/* NULL when the terminal cannot show a screen. ncurses would end the program when it cannot. */
static SCREEN *open_screen(void)
{
    const char *term = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || term == NULL || term[0] == '\0') return NULL;
    int failed = 0;
    if (setupterm(term, STDOUT_FILENO, &failed) != OK || !can("clear") || !can("cup")) return NULL;
    return newterm(NULL, stdout, stdin);
}

bn_status bn_top_screen(struct bn_top *top, bool *shown, bn_error *err)
{
    struct screen s = {.top = top};
    bn_status status = BN_OK;
    SCREEN *screen = open_screen();
    *shown = screen != NULL;
    if (screen == NULL) return BN_OK;
    set_escdelay(25);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    curs_set(0);
    start_colors(&s);
    while (status == BN_OK && !s.ends && bn_cli_interrupted() == 0)
        status = step(&s, err);
    endwin();
    delscreen(screen);
    return status;
}
