"""Commands beside PanDA: ``broker shadow`` compares with JEDI, ``broker plugin`` says what JEDI's plug-in decides."""
