/* SPDX-License-Identifier: MIT
 *
 * Completions for bash, zsh and fish.
 */
#include <string.h>

#include "tools/cli/program/dump.h"
#include "tools/cli/table.h"

/* bn-verify-receipt as part of a function's name. */
static void put_name(FILE *out, const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        fputc(*c == '-' ? '_' : *c, out);
}

/* Text inside single quotes; the characters in special get a backslash. */
static void put_quoted(FILE *out, const char *text, const char *special)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(special, *c) != NULL) fputc('\\', out);
        fputc(*c, out);
    }
}

static void put_choices(FILE *out, const struct bn_option *o)
{
    const char *choice;
    size_t n;
    if (o->words != NULL) fputs(o->words, out);
    for (size_t i = 0; (choice = bn_table_choice(o, i, &n)) != NULL; i++)
        fprintf(out, "%s%.*s", i > 0 ? " " : "", (int)n, choice);
}

/* ---- bash ---- */

/* "generate:--model | generate:-m)" and what completes its value. */
static void put_bash_values(FILE *out, const struct bn_command *command)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    for (size_t i = 0; i < n; i++) {
        const struct bn_option *o = list[i];
        enum bn_value_kind kind = bn_dump_kind(o);
        if (kind == BN_VALUE_NONE) continue;
        fputs("    ", out);
        if (o->letter != '\0') fprintf(out, "'%s:-%c' | ", command->name, o->letter);
        fprintf(out, "'%s:--%s')\n        ", command->name, o->name);
        if (kind == BN_VALUE_CHOICE) {
            fputs("mapfile -t COMPREPLY < <(compgen -W '", out);
            put_choices(out, o);
            fputs("' -- \"$cur\")\n        ", out);
        } else if (kind == BN_VALUE_MODEL) {
            fputs(
                "compopt -o filenames 2>/dev/null\n        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"\n"
                "            compgen -W \"" BN_DUMP_NAMES "\" -- \"$cur\")\n        ",
                out);
        } else if (kind != BN_VALUE_ANY) {
            fprintf(out,
                    "compopt -o filenames 2>/dev/null\n        mapfile -t COMPREPLY < <(compgen -%c -- "
                    "\"$cur\")\n        ",
                    kind == BN_VALUE_FILE ? 'f' : 'd');
        }
        fputs("return\n        ;;\n", out);
    }
}

static void put_bash_options(FILE *out, const struct bn_command *command)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    fprintf(out, "        '%s') words='", command->name);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s--%s", i > 0 ? " " : "", list[i]->name);
    fputs("' ;;\n", out);
}

static void put_bash_commands(FILE *out, const struct bn_program *program)
{
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        fprintf(out, "%s%s", c != program->commands ? " " : "", c->name);
}

static void put_bash_forward(FILE *out, const struct bn_program *program)
{
    fprintf(out,
            "    if [[ -n $command ]]; then\n"
            "        COMP_WORDS=(\"%s-$command\" \"${COMP_WORDS[@]:at+1}\")\n"
            "        COMP_CWORD=$((COMP_CWORD - at))\n"
            "        declare -F \"_%s_${command//-/_}\" >/dev/null || _completion_loader \"%s-$command\" "
            "2>/dev/null\n"
            "        declare -F \"_%s_${command//-/_}\" >/dev/null && \"_%s_${command//-/_}\"\n"
            "        return\n    fi\n",
            program->name, program->name, program->name, program->name, program->name);
}

/* What completes an argument: files, and for commands that take models their names too. */
static void put_bash_operands(FILE *out, const struct bn_program *program)
{
    bool any = false;
    fputs("        compopt -o filenames 2>/dev/null\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n",
          out);
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        if (!bn_dump_takes_models(c)) continue;
        fprintf(out, "%s%s", any ? " | " : "        case $command in\n        ",
                c->name[0] != '\0' ? c->name : "''");
        any = true;
    }
    if (any)
        fputs(")\n            mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -W \"" BN_DUMP_NAMES
              "\" -- \"$cur\")\n            ;;\n        esac\n",
              out);
}

void bn_dump_bash(FILE *out, const struct bn_program *program)
{
    const struct bn_command *usual = bn_table_default(program);
    fprintf(out, "# bash completion for %s; written by make docs\n_", program->name);
    put_name(out, program->name);
    fprintf(
        out,
        "()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' %swords=''\n"
        "    COMPREPLY=()\n",
        bn_table_has_commands(program) ? "at " : "");
    fputs("    if [[ $cur == '=' ]]; then\n        cur=''\n"
          "    elif [[ $prev == '=' ]]; then\n        prev=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n",
          out);
    if (bn_table_has_commands(program)) {
        fputs("    for ((at = 1; at < COMP_CWORD; at++)); do\n        case ${COMP_WORDS[at]} in\n        ",
              out);
        for (const struct bn_command *c = program->commands; c->run != NULL; c++)
            fprintf(out, "%s%s", c != program->commands ? " | " : "", c->name);
        fputs(")\n            command=${COMP_WORDS[at]}\n            break\n            ;;\n        esac\n   "
              " done\n",
              out);
        if (program->forwards) put_bash_forward(out, program);
        fprintf(out, "    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then\n"
                     "        mapfile -t COMPREPLY < <(compgen -W '");
        put_bash_commands(out, program);
        fprintf(out, "%s' -- \"$cur\")\n        return\n    fi\n",
                usual != NULL && bn_dump_takes_models(usual) ? " '\"" BN_DUMP_NAMES "\"'" : "");
    }
    if (usual != NULL && usual->name[0] != '\0') fprintf(out, "    command=${command:-%s}\n", usual->name);
    static const struct bn_command common = {.name = ""};
    fputs("    case $command:$prev in\n", out);
    for (const struct bn_command *c = program->commands; c->run != NULL && !program->forwards; c++)
        put_bash_values(out, c);
    if (usual == NULL) put_bash_values(out, &common);
    fputs("    esac\n    if [[ $cur == -* ]]; then\n        case $command in\n", out);
    for (const struct bn_command *c = program->commands; c->run != NULL && !program->forwards; c++)
        put_bash_options(out, c);
    if (usual == NULL) put_bash_options(out, &common);
    fputs("        esac\n        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n    else\n",
          out);
    put_bash_operands(out, program);
    fputs("    fi\n}\ncomplete -F _", out);
    put_name(out, program->name);
    fprintf(out, " %s\n", program->name);
}

/* ---- zsh ---- */

#define ZSH_MODELS "{_files; compadd -- " BN_DUMP_NAMES "}"

static void put_zsh_option(FILE *out, const struct bn_option *o)
{
    fputs(" \\\n            '", out);
    if (o->repeatable) fputs("*", out);
    if (o->letter != '\0' && !o->repeatable) fprintf(out, "(-%c --%s)", o->letter, o->name);
    if (o->letter != '\0')
        fprintf(out, "'{-%c%s,--%s%s}'", o->letter, o->arg != NULL ? "+" : "", o->name,
                o->arg != NULL ? "=" : "");
    else
        fprintf(out, "--%s%s", o->name, o->arg != NULL ? "=" : "");
    fputc('[', out);
    put_quoted(out, o->help, "[]:\\");
    fputc(']', out);
    enum bn_value_kind kind = bn_dump_kind(o);
    if (kind == BN_VALUE_CHOICE) {
        fprintf(out, ":%s:(", o->name);
        put_choices(out, o);
        fputc(')', out);
    } else if (kind != BN_VALUE_NONE) {
        fprintf(out, ":%s:%s", o->arg,
                kind == BN_VALUE_FILE     ? "_files"
                : kind == BN_VALUE_MODEL  ? ZSH_MODELS
                : kind == BN_VALUE_FOLDER ? "_files -/"
                                          : "");
    }
    fputc('\'', out);
}

static void put_zsh_command(FILE *out, const struct bn_command *command)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    fprintf(out, "        '%s')\n        _arguments -s -S", command->name);
    for (size_t i = 0; i < n; i++)
        put_zsh_option(out, list[i]);
    fprintf(out, " \\\n            '*:file:%s'\n        ;;\n",
            bn_dump_takes_models(command) ? ZSH_MODELS : "_files");
}

void bn_dump_zsh(FILE *out, const struct bn_program *program)
{
    const struct bn_command *usual = bn_table_default(program);
    static const struct bn_command common = {.name = ""};
    fprintf(out, "#compdef %s\n# zsh completion for %s; written by make docs\n_", program->name,
            program->name);
    put_name(out, program->name);
    fprintf(out, "()\n{\n    local command='%s' at\n", usual != NULL ? usual->name : "");
    if (bn_table_has_commands(program)) {
        fputs("    local -a commands=(\n", out);
        for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
            fprintf(out, "        '%s:", c->name);
            put_quoted(out, c->summary, ":\\");
            fputs("'\n", out);
        }
        fputs("    )\n    for ((at = 2; at < CURRENT; at++)); do\n"
              "        if (( ${commands[(I)${words[at]}:*]} )); then\n"
              "            command=${words[at]}\n",
              out);
        if (program->forwards)
            fprintf(out,
                    "            words=(\"%s-$command\" \"${(@)words[at + 1,-1]}\")\n"
                    "            (( CURRENT -= at - 1 ))\n            _normal\n            return\n",
                    program->name);
        else
            fputs("            words=(\"${words[1]}\" \"${(@)words[2,at - 1]}\" \"${(@)words[at + 1,-1]}\")\n"
                  "            (( CURRENT -= 1 ))\n            break\n",
                  out);
        fputs("        fi\n    done\n"
              "    if (( CURRENT == 2 && at == 2 )) && [[ ${words[2]} != -* ]]; then\n"
              "        _describe command commands\n",
              out);
        if (usual != NULL && bn_dump_takes_models(usual))
            fputs("        compadd -- " BN_DUMP_NAMES "\n", out);
        fputs("        return\n    fi\n", out);
    }
    fputs("    case $command in\n", out);
    for (const struct bn_command *c = program->commands; c->run != NULL && !program->forwards; c++)
        put_zsh_command(out, c);
    if (usual == NULL) put_zsh_command(out, &common);
    fputs("    esac\n}\n_", out);
    put_name(out, program->name);
    fputs(" \"$@\"\n", out);
}

/* ---- fish ---- */

/* The condition under which a command's options are offered. */
static void put_fish_condition(FILE *out, const struct bn_program *program, const struct bn_command *command)
{
    if (!bn_table_has_commands(program) || program->forwards) return;
    bool usual = command == bn_table_default(program);
    fprintf(out, " -n '%s__fish_seen_subcommand_from", usual ? "not " : "");
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        if ((c == command) != usual) fprintf(out, " %s", c->name);
    fputc('\'', out);
}

#define FISH_MODELS " -a '(bn-download list --names 2>/dev/null)'"

static void put_fish_option(FILE *out, const struct bn_program *program, const struct bn_command *command,
                            const struct bn_option *o)
{
    enum bn_value_kind kind = bn_dump_kind(o);
    fprintf(out, "complete -c %s", program->name);
    if (command != NULL) put_fish_condition(out, program, command);
    fprintf(out, " -l %s", o->name);
    if (o->letter != '\0') fprintf(out, " -s %c", o->letter);
    if (kind == BN_VALUE_FILE || kind == BN_VALUE_MODEL) fputs(" -r -F", out);
    if (kind == BN_VALUE_MODEL) fputs(FISH_MODELS, out);
    if (kind == BN_VALUE_FOLDER) fputs(" -x -a '(__fish_complete_directories)'", out);
    if (kind == BN_VALUE_ANY) fputs(" -x", out);
    if (kind == BN_VALUE_CHOICE) {
        fputs(" -x -a '", out);
        put_choices(out, o);
        fputc('\'', out);
    }
    fputs(" -d '", out);
    put_quoted(out, o->help, "\\");
    fputs("'\n", out);
}

void bn_dump_fish(FILE *out, const struct bn_program *program)
{
    fprintf(out, "# fish completion for %s; written by make docs\n", program->name);
    if (bn_table_has_commands(program))
        for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
            fprintf(out, "complete -c %s -f -n __fish_use_subcommand -a %s -d '", program->name, c->name);
            put_quoted(out, c->summary, "\\");
            fputs("'\n", out);
        }
    for (const struct bn_command *c = program->commands; c->run != NULL && !program->forwards; c++) {
        const struct bn_option *list[BN_OPTIONS_MAX];
        size_t n = bn_table_options(c, list);
        for (size_t i = 0; i < n; i++)
            if (strcmp(list[i]->group != NULL ? list[i]->group : "", bn_table_common[0].group) != 0)
                put_fish_option(out, program, c, list[i]);
        if (!bn_dump_takes_models(c)) continue;
        fprintf(out, "complete -c %s", program->name);
        put_fish_condition(out, program, c);
        fprintf(out, "%s -d model\n", FISH_MODELS);
    }
    for (const struct bn_option *o = bn_table_common; o->name != NULL; o++)
        put_fish_option(out, program, NULL, o);
    if (!program->forwards) return;
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        fprintf(out,
                "complete -c %s -n '__fish_seen_subcommand_from %s' -a '(complete -C (string replace -r "
                "\"^%s +%s\" \"%s-%s\" (commandline -cp)))'\n",
                program->name, c->name, program->name, c->name, program->name, c->name);
}
