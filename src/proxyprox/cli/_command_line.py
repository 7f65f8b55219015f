"""The command that was typed, for the report and for going on after an interruption."""

from __future__ import annotations

import shlex

import typer


def command_line(context: typer.Context) -> str:
    """Return the command with the options that were given, quoted for a shell.

    Parameters
    ----------
    context : typer.Context
        Context of the running command.
    """
    words, values = [context.command_path], context.params
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value = values[str(parameter.name)]
        if parameter.param_type_name == "argument":
            words.append(shlex.quote(str(value)))
        elif getattr(parameter, "is_flag", False):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            words += [parameter.opts[0], shlex.quote(_written(value))]
    return " ".join(words)


def _written(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
