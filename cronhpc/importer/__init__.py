"""Other schedulers' tables to entries; pure.

    bytes --Crontab.read | Scrontab.read--> Table --script.named--> Imported (name, path, script)

Every line of a table is accounted for: it is blank, a comment, a variable, options or an entry, or it is reported.
"""
